import assert from 'node:assert/strict'
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { JsonSchema } from '@gantry/contract'
import { compileSchema } from '../src/index.ts'

interface Group {
  readonly description: string
  readonly schema: JsonSchema
  readonly tests: readonly { readonly description: string; readonly data: unknown; readonly valid: boolean }[]
}

const suite = join(import.meta.dirname, '../../../../shared/data/json-schema-test-suite')
const skip = existsSync(suite) ? false : `the JSON Schema test suite is not at ${suite}`

const read = (path: string): unknown => JSON.parse(readFileSync(path, 'utf8'))

/** The suite's remote documents under the addresses its schemas use. */
function readRemotes(folder: string, uri: string, documents = new Map<string, JsonSchema>()): Map<string, JsonSchema> {
  for (const entry of readdirSync(folder, { withFileTypes: true })) {
    const path = join(folder, entry.name)
    if (entry.isDirectory()) readRemotes(path, `${uri}${entry.name}/`, documents)
    else documents.set(uri + entry.name, read(path) as JsonSchema)
  }
  return documents
}

/** The cases of draft-07 do not name their dialect, so this does. */
function inDialect(schema: JsonSchema, uri: string): JsonSchema {
  return typeof schema === 'boolean' || Object.hasOwn(schema, '$schema') ? schema : { $schema: uri, ...schema }
}

const dialects = [
  { folder: 'draft2020-12', uri: 'https://json-schema.org/draft/2020-12/schema', total: 1_299 },
  { folder: 'draft7', uri: 'http://json-schema.org/draft-07/schema#', total: 927 },
]

for (const { folder, uri, total } of dialects) {
  test(`every required case of ${folder} has the verdict of the suite`, { skip }, async (context) => {
    const documents = readRemotes(join(suite, 'remotes'), 'http://localhost:1234/')
    let ran = 0
    for (const file of readdirSync(join(suite, 'tests', folder)).filter((name) => name.endsWith('.json'))) {
      await context.test(file, () => {
        for (const group of read(join(suite, 'tests', folder, file)) as Group[]) {
          const validator = compileSchema(inDialect(group.schema, uri), { documents })
          for (const { description, data, valid } of group.tests) {
            const name = `${group.description}: ${description}`
            assert.equal(validator.check(data), valid, name)
            assert.equal(validator.issues(data).length === 0, valid, `${name} (issues)`)
            ran++
          }
        }
      })
    }
    assert.equal(ran, total)
  })
}
