-- Which build raised peak memory most over the one before it, and which site did it?
-- For ClickHouse from 18.16 on. Peaks are the medians over the runs of a build.
SELECT
    builds[i] AS build,
    sites[i] AS site,
    peaks[i] - peaks[i - 1] AS raised_by
FROM
(
    SELECT
        site,
        groupArray(build) AS builds,
        groupArray(site) AS sites,
        groupArray(at_peak) AS peaks
    FROM
    (
        SELECT build, site, quantileExact(at_peak_bytes) AS at_peak
        FROM
        (
            SELECT trace, concat(name, ' (', assumeNotNull(file), ':', toString(line), ')') AS site,
                sum(at_peak_bytes) AS at_peak_bytes
            FROM site_totals FINAL
            WHERE pool = 'default'
            GROUP BY trace, site
        )
        ANY INNER JOIN
        (
            SELECT trace, value AS build FROM labels FINAL WHERE name = 'build'
        ) USING trace
        GROUP BY build, site
        ORDER BY site, build
    )
    GROUP BY site
)
ARRAY JOIN arrayEnumerate(builds) AS i
WHERE i > 1
ORDER BY raised_by DESC
LIMIT 3
