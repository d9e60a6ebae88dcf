import { mkdirSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { apiPages } from './docs/api-pages.ts'
import { generated } from './docs/generated.ts'

/** Compares docs/api with the public names and signatures of the packages; `--write` writes it. `npm run docs` does too. */
const root = dirname(import.meta.dirname)
mkdirSync(join(root, 'docs/api'), { recursive: true })
const write = process.argv.includes('--write')
const faults = [...apiPages(root)].flatMap(([file, text]) =>
  generated(root, file, text, write, 'npm run api -- --write'),
)
for (const fault of faults) console.error(fault)
process.exitCode = faults.length === 0 ? 0 : 1
