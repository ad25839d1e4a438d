-- Queries of users that are not on docs/how-to/query.md and must run, too.

SELECT title, paper_raw, raw, difficulty, silver, final
FROM attrition_wide;

SELECT stage, step, reason, sum(rows) AS rows
FROM drops_by_reason
GROUP BY stage_order, stage, step, reason
ORDER BY stage_order, rows DESC;

SELECT stage, step, engine, count(*) AS rows
FROM drops
GROUP BY ALL
ORDER BY stage, step, engine;

SELECT matched_source AS benchmark, source, reason, count(*) AS rows
FROM drops
WHERE stage = 'decontaminated'
GROUP BY ALL
ORDER BY benchmark, rows DESC, source, reason;

SELECT stage, reason, count(*) AS rows
FROM (FROM drops UNION ALL FROM benchmark_drops)
WHERE step = 'holdout'
GROUP BY stage, reason
ORDER BY stage, reason;

SELECT 200 * (evidence_tokens // 200) AS tokens_from, count(*) AS claims,
       bar(count(*), 0, max(count(*)) OVER (), 40) AS histogram
FROM training_claims
WHERE evidence_tokens IS NOT NULL
GROUP BY tokens_from
ORDER BY tokens_from;

SELECT c.bucket, c.available, c.selected, round(c.mean_cover, 3) AS mean_cover,
       round(c.within_0_7, 3) AS within_0_7, round(min(s.selection_gain), 3) AS last_gain
FROM selection_cells c
JOIN diversity_selected s ON s.bucket = c.bucket
GROUP BY ALL
ORDER BY c.available DESC, c.bucket;

SELECT claim_id, claim, unnest(questions) AS question
FROM training_claims
WHERE origin = 'selected'
ORDER BY claim_id
LIMIT 20;

SELECT stage, rows_in, rows_kept, rows_dropped
FROM stage_runs
WHERE stage NOT LIKE '%/%'
  AND stage NOT IN ('attrition', 'diversity_selected')
  AND rows_in != rows_kept + rows_dropped;

SELECT experiment, split, measure,
       round(arg_min(mean, step), 3) AS before, round(arg_max(mean, step), 3) AS after
FROM curves
WHERE split != 'train'
GROUP BY experiment, split, measure
ORDER BY experiment, split, measure;

SELECT experiment, reward, step // 100 * 100 AS steps_from,
       round(avg(spread), 3) AS mean_spread
FROM (
    SELECT experiment, step, "group", reward, stddev_pop(value) AS spread
    FROM training_rewards
    WHERE split = 'train' AND question IS NULL AND counted
    GROUP BY ALL
)
GROUP BY experiment, reward, steps_from
ORDER BY experiment, steps_from, mean_spread DESC;

SELECT experiment, task, failure, count(*) AS calls, min(step) AS first_step
FROM training_judge_calls
WHERE value IS NULL
GROUP BY experiment, task, failure
ORDER BY calls DESC, experiment, task;

SELECT system, benchmark, slice, value, score, low, high, rows
FROM scores
WHERE metric = 'balanced_accuracy' AND slice IN ('all', 'hops', 'evidence_words')
ORDER BY system, benchmark, slice, value;
