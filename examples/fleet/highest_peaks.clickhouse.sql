-- Which builds have the highest peaks, and how high is the median run's?
-- For ClickHouse from 18.16 on.
SELECT build, max(peak_bytes) AS peak, quantileExact(peak_bytes) AS usual, count() AS runs
FROM
(
    SELECT trace, peak_bytes FROM pools FINAL WHERE name = 'default'
)
ANY INNER JOIN
(
    SELECT trace, value AS build FROM labels FINAL WHERE name = 'build'
) USING trace
GROUP BY build
ORDER BY peak DESC
LIMIT 10
