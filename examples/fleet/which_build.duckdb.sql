-- Which build raised peak memory most over the one before it, and which site did it?
-- For DuckDB, in the folder that `tidemark push --sink files=FOLDER` wrote. Peaks are the medians
-- over the runs of a build.
WITH runs AS (
    SELECT trace, name || ' (' || file || ':' || line || ')' AS site, sum(at_peak_bytes) AS bytes
    FROM 'site_totals/*/*.parquet' SEMI JOIN 'traces/*/*.parquet' USING (trace)
    WHERE pool = 'default'
    GROUP BY ALL
), builds AS (
    SELECT l.value AS build, site, median(bytes) AS at_peak
    FROM runs JOIN 'labels/*/*.parquet' l USING (trace)
    WHERE l.name = 'build'
    GROUP BY ALL
)
SELECT build, site,
    (at_peak - lag(at_peak) OVER (PARTITION BY site ORDER BY build))::BIGINT AS raised_by
FROM builds
ORDER BY raised_by DESC NULLS LAST
LIMIT 3;
