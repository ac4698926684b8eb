// Answers SQL: a JSON list of queries on standard input, a JSON list of lists of rows on standard output.
import { DuckDBInstance } from '@duckdb/node-api';

let input = '';
for await (const piece of process.stdin) input += piece;
const connection = await (await DuckDBInstance.create(':memory:')).connect();
const answers = [];
for (const query of JSON.parse(input)) {
  const reader = await connection.runAndReadAll(query);
  answers.push(reader.getRowsJson());
}
process.stdout.write(JSON.stringify(answers));
