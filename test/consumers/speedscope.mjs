// Holds files against the schema that speedscope publishes. Exit status 1 and the faults when one fails.
import { readFileSync } from 'node:fs';
import { fileURLToPath } from 'node:url';
import { Ajv } from 'ajv';

const folder = new URL('node_modules/speedscope/dist/release/', import.meta.url);
const schema = JSON.parse(readFileSync(fileURLToPath(new URL('file-format-schema.json', folder))));
const validate = new Ajv({ allErrors: true, strict: false }).compile(schema);
for (const path of process.argv.slice(2)) {
  if (!validate(JSON.parse(readFileSync(path)))) {
    console.error(path, JSON.stringify(validate.errors.slice(0, 5), null, 1));
    process.exitCode = 1;
  }
}
