-- Which sites leave more behind on one kind of host than on the others?
-- For ClickHouse from 18.16 on.
SELECT site, argMax(host, live) AS host, toInt64(max(live)) AS most, toInt64(min(live)) AS elsewhere
FROM
(
    SELECT host, site, avg(live_bytes) AS live
    FROM
    (
        SELECT trace, concat(name, ' (', assumeNotNull(file), ':', toString(line), ')') AS site,
            live_bytes
        FROM site_totals FINAL
    )
    ANY INNER JOIN
    (
        SELECT trace, value AS host FROM labels FINAL WHERE name = 'host'
    ) USING trace
    GROUP BY host, site
)
GROUP BY site
ORDER BY most - elsewhere DESC
LIMIT 3
