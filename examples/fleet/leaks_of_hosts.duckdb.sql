-- Which sites leave more behind on one kind of host than on the others?
-- For DuckDB, in the folder that `tidemark push --sink files=FOLDER` wrote.
WITH live AS (
    SELECT l.value AS host, s.name || ' (' || s.file || ':' || s.line || ')' AS site,
        avg(s.live_bytes) AS live
    FROM 'site_totals/*/*.parquet' s
        SEMI JOIN 'traces/*/*.parquet' t USING (trace)
        JOIN 'labels/*/*.parquet' l USING (trace)
    WHERE l.name = 'host'
    GROUP BY ALL
)
SELECT site, arg_max(host, live) AS host, max(live)::BIGINT AS live, min(live)::BIGINT AS elsewhere
FROM live
GROUP BY site
ORDER BY max(live) - min(live) DESC
LIMIT 3;
