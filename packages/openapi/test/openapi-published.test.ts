import assert from 'node:assert/strict'
import { existsSync, globSync, readFileSync } from 'node:fs'
import { basename, join } from 'node:path'
import { test } from 'node:test'
import { checkTool } from '../../core/src/catalogs/tool-check.ts'
import { importOpenapi } from '../src/index.ts'

const folder = join(import.meta.dirname, '../../../node_modules/@readme/oas-examples')
const skip = existsSync(folder) ? false : 'the package @readme/oas-examples is not installed'
const methods = ['get', 'put', 'post', 'delete', 'options', 'head', 'patch', 'trace']

function operationsOf(document: { paths?: { [path: string]: object } }): number {
  const paths = Object.values(document.paths ?? {})
  return paths.reduce(
    (sum, item) => sum + Object.keys(item).filter((key) => methods.includes(key) || key === '$ref').length,
    0,
  )
}

function importFile(file: string) {
  const document = JSON.parse(readFileSync(join(folder, file), 'utf8'))
  return {
    ...importOpenapi(document, { name: 'x', baseUrl: 'https://api.example.com' }),
    operations: operationsOf(document),
  }
}

test('every published document is imported into tools that a catalog accepts, with a report of what is left out', {
  skip,
}, () => {
  const files = globSync('3.[01]/json/*.json', { cwd: folder })
  assert.ok(files.length > 40)
  for (const file of files) {
    const { tools, report, operations } = importFile(file)
    assert.equal(tools.length + report.leftOut.length, operations, file)
    for (const tool of tools) checkTool(tool)
  }
})

test('the large documents are imported completely', { skip }, () => {
  for (const [file, count] of [
    ['3.0/json/star-trek.json', 120],
    ['3.0/json/readme-legacy.json', 36],
    ['3.1/json/readme.json', 54],
  ] as const) {
    const { tools, report } = importFile(file)
    assert.deepEqual([tools.length, report.leftOut], [count, []], basename(file))
  }
})
