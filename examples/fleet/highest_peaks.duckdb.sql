-- Which builds have the highest peaks, and how high is the median run's?
-- For DuckDB, in the folder that `tidemark push --sink files=FOLDER` wrote.
SELECT l.value AS build, max(p.peak_bytes) AS peak, median(p.peak_bytes)::BIGINT AS usual, count(*) AS runs
FROM 'pools/*/*.parquet' p
    SEMI JOIN 'traces/*/*.parquet' t USING (trace)
    JOIN 'labels/*/*.parquet' l USING (trace)
WHERE p.name = 'default' AND l.name = 'build'
GROUP BY build
ORDER BY peak DESC
LIMIT 10;
