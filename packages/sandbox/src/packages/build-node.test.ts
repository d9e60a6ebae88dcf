import assert from 'node:assert/strict'
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, mkdtempSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after } from 'node:test'
import { sandboxTest } from '@gantry/conformance/internal/sandbox-test'
import type { JsonObject } from '@gantry/contract'
import { createSandboxes } from '../runtimes/create-sandboxes.ts'
import { buildPackages } from './build-packages.ts'
import { removeTree } from './layer-store.ts'
import { prunePackages } from './open-layers.ts'
import { readPackages } from './package-lists.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-node-packages-'))
const ran = join(folder, 'ran')
const signal = AbortSignal.timeout(60_000)

/** A package of the registry, as npm would have published it. */
function pack(name: string, manifest: JsonObject, code: string): Buffer {
  const content = join(folder, name, 'package')
  mkdirSync(content, { recursive: true })
  writeFileSync(join(content, 'package.json'), JSON.stringify({ name, version: '1.0.0', ...manifest }))
  writeFileSync(join(content, 'index.js'), code)
  execFileSync('tar', ['-C', join(folder, name), '-czf', join(folder, `${name}.tgz`), 'package'])
  return readFileSync(join(folder, `${name}.tgz`))
}

const scripts = { install: `touch ${ran}` }
const packages: { readonly [name: string]: readonly [manifest: JsonObject, file: Buffer] } = {
  'gantry-a': [
    { dependencies: { 'gantry-b': '^1.0.0' } },
    pack('gantry-a', { dependencies: { 'gantry-b': '^1.0.0' } }, "module.exports = require('gantry-b') + 1"),
  ],
  'gantry-b': [{ hasInstallScript: true, scripts }, pack('gantry-b', { scripts }, 'module.exports = 41')],
}
const registry = createServer((request, response) => {
  const path = decodeURIComponent(request.url ?? '').slice(1)
  const [manifest, file] = packages[path.replace(/\.tgz$/, '')] ?? []
  if (manifest === undefined || file === undefined) return response.writeHead(404).end('{}')
  if (path.endsWith('.tgz')) return response.end(file)
  const integrity = `sha512-${createHash('sha512').update(file).digest('base64')}`
  const dist = { tarball: `http://${request.headers.host}/${path}.tgz`, integrity }
  const version = { name: path, version: '1.0.0', dist, ...manifest }
  response.setHeader('content-type', 'application/json')
  return response.end(JSON.stringify({ name: path, 'dist-tags': { latest: '1.0.0' }, versions: { '1.0.0': version } }))
})
await new Promise<void>((resolve) => registry.listen(0, '127.0.0.1', resolve))
const address = registry.address()
assert.ok(address !== null && typeof address === 'object')
Object.assign(process.env, {
  npm_config_registry: `http://127.0.0.1:${address.port}/`,
  npm_config_noproxy: '127.0.0.1',
  npm_config_cache: join(folder, 'cache'),
})
after(async () => {
  registry.closeAllConnections()
  registry.close()
  await prunePackages({})
  await removeTree(folder)
})

sandboxTest('programs in JavaScript and TypeScript find npm packages, whose scripts never ran', async () => {
  const lock = join(folder, 'gantry.node.lock')
  const options = {
    pool: false,
    node: { packages: ['gantry-a@1'], lock },
    packagesFolder: join(folder, 'kept'),
  } as const
  const source = await readPackages(options, 'node')
  assert.ok(source)
  const pythonTarget = (): Promise<never> => Promise.reject(new Error('no Python is asked'))
  const usual = { update: false, signal, onProgress: () => undefined, pythonTarget }
  const { layer, warnings } = await buildPackages(source, usual)
  assert.deepEqual([layer.packages, existsSync(ran)], [2, false])
  assert.match(warnings.join(), /^gantry-b has an install script, which was not run/)
  assert.doesNotMatch(readFileSync(lock, 'utf8'), /resolved|127\.0\.0\.1/)
  const boxes = createSandboxes(options)
  try {
    for (const [language, code] of [
      ['javascript', "return require('gantry-a')"],
      ['typescript', "import a from 'gantry-a'\nexport default a as number"],
    ] as const) {
      const { outcome, runtime } = await boxes.run({ program: { kind: 'code', language, code } }, signal)
      assert.deepEqual([outcome.value, runtime.packages], [42, { node: `sha256:${layer.digest}` }], language)
    }
  } finally {
    await boxes.close()
  }
  const text = readFileSync(lock, 'utf8')
  for (const [changed, message] of [
    [
      text.replace(/"integrity": "sha512-[^"]+"/, '"resolved": "file:../x"'),
      /is not a package of a registry with its hash/,
    ],
    [text.replace('"gantry-a": "1"', '"gantry-a": "2"'), /is the lock of another list/],
    ['[]', /is not a package-lock\.json/],
  ] as const) {
    writeFileSync(lock, changed)
    await assert.rejects(buildPackages(source, usual), message)
  }
})
