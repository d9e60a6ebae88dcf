import assert from 'node:assert/strict'
import { mkdirSync, mkdtempSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { emptyFolder, installed, root, run, tsc } from './project.fixture.ts'

/** A program as the README has it; the types of arguments and context come from the schema. */
const program = `import { createExecutor, defineTool, type Result } from 'gantry'
const add = defineTool({ namespace: 'math', name: 'add', description: 'Adds.',
  inputSchema: { type: 'object', properties: { a: { type: 'number' }, b: { type: 'number' } }, required: ['a', 'b'] },
  run: ({ a, b }, context) => ({ result: a + b, id: context.callId }) })
const gantry = createExecutor({ tools: [add] })
const result: Result = await gantry.run('math:add', { a: 1, b: 2 })
export const status: string = result.status
await gantry.close()
`

/** What `tsc --init` of TypeScript 7 writes, but for skipLibCheck, and the strictest that its comments suggest. */
const strictest = {
  target: 'esnext',
  noUncheckedIndexedAccess: true,
  exactOptionalPropertyTypes: true,
  verbatimModuleSyntax: true,
  isolatedModules: true,
  noUncheckedSideEffectImports: true,
  moduleDetection: 'force',
  noImplicitOverride: true,
  noPropertyAccessFromIndexSignature: true,
}

/** The declarations of the Temporal SDK need types of packages that it does not install. */
const needsSkipLibCheck = ['@gantry/temporal']

function publicPaths(): string[] {
  const { packages } = JSON.parse(readFileSync(join(installed, 'node_modules/.package-lock.json'), 'utf8')) as {
    readonly packages: { readonly [place: string]: unknown }
  }
  const names = Object.keys(packages).map((place) => place.replace('node_modules/', ''))
  const ours = names.filter((name) => name === 'gantry' || name.startsWith('@gantry/'))
  return ours.flatMap((name) => {
    const { exports } = JSON.parse(readFileSync(join(installed, 'node_modules', name, 'package.json'), 'utf8'))
    // A JSON Schema is for editors, and no module.
    const paths = Object.keys(exports).filter((path) => !path.includes('*') && !path.endsWith('.json'))
    return paths.map((path) => name + path.slice(1))
  })
}

test('a strict TypeScript program compiles against the installed packages without skipLibCheck', () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'program.ts'), program)
  const paths = publicPaths().filter((path) => !needsSkipLibCheck.includes(path))
  assert.ok(paths.length >= 20, paths.join(' '))
  writeFileSync(join(folder, 'all.ts'), paths.map((path, at) => `export * as all${at} from '${path}'\n`).join(''))
  for (const options of [{}, { ...strictest, module: 'preserve', moduleResolution: 'bundler' }]) {
    const { stdout, status } = tsc(options, folder)
    assert.equal(status, 0, stdout)
  }
})

test('with skipLibCheck the package of the Temporal SDK compiles too', () => {
  const folder = emptyFolder()
  writeFileSync(join(folder, 'all.ts'), needsSkipLibCheck.map((path) => `export * from '${path}'\n`).join(''))
  const { stdout, status } = tsc({ ...strictest, skipLibCheck: true }, folder)
  assert.equal(status, 0, stdout)
})

test('a strict program that uses the clone by folder compiles and runs', () => {
  const folder = mkdtempSync(join(tmpdir(), 'gantry-by-folder-'))
  after(() => rmSync(folder, { recursive: true, force: true }))
  // What `npm install /path/to/gantry/packages/gantry` makes.
  mkdirSync(join(folder, 'node_modules'))
  symlinkSync(join(root, 'packages/gantry'), join(folder, 'node_modules/gantry'))
  writeFileSync(join(folder, 'package.json'), '{"private":true,"type":"module"}')
  writeFileSync(join(folder, 'program.ts'), `${program}console.log(status)\n`)
  // Without the options that our own sources are compiled with beyond `strict`, and with the types of browsers.
  const checked = tsc({ allowImportingTsExtensions: true, skipLibCheck: true }, folder)
  assert.equal(checked.status, 0, checked.stdout)
  const { stdout, stderr } = run(process.execPath, ['program.ts'], folder)
  assert.equal(stdout, 'ok\n', stderr)
})
