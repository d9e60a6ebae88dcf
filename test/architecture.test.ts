import assert from 'node:assert/strict'
import { globSync, readFileSync } from 'node:fs'
import { basename, dirname, join, relative } from 'node:path'
import { test } from 'node:test'
import { codes } from '@gantry/contract'
import { errorsPage } from '../scripts/docs/errors-page.ts'

const root = dirname(import.meta.dirname)
const sources = globSync('packages/*/src/**/*.ts', { cwd: root }).sort()
const code = sources.filter((file) => !/\.(?:test|fixture)\.ts$/.test(file))

/** Rank of each top folder (or file) of a package; imports go to lower ranks only. */
const ranks: { readonly [pack: string]: { readonly [folder: string]: number } } = {
  contract: { '.': 0, schemas: 1 },
  core: {
    json: 0,
    artifacts: 1,
    ids: 1,
    search: 1,
    tracing: 1,
    options: 2,
    resilience: 3,
    egress: 4,
    files: 4,
    runtimes: 5,
    catalogs: 6,
    policies: 6,
    audits: 6,
    secrets: 6,
    backends: 6,
    pins: 6,
    pipeline: 7,
    chain: 8,
    tools: 8,
    code: 9,
    '.': 10,
  },
  sandbox: {
    languages: 0,
    pools: 0,
    'egress-proxy': 0,
    selection: 1,
    sessions: 1,
    launcher: 1,
    process: 2,
    packages: 3,
    drivers: 4,
    runtimes: 5,
    backends: 6,
    '.': 7,
  },
  'sandbox-wasm': { guest: 0, channel: 1, quickjs: 2, wasi: 2, python: 2, thread: 3, '.': 4 },
  'sandbox-containers': { engines: 0, images: 1, containers: 2, drivers: 3, '.': 4 },
  'sandbox-kubernetes': { cluster: 0, pods: 1, claims: 2, drivers: 3, '.': 4 },
  'sandbox-microvm': { images: 0, machines: 1, drivers: 2, '.': 3 },
  'sandbox-proxmox': { api: 0, containers: 1, templates: 1, drivers: 2, '.': 3 },
  'sandbox-remote': { protocol: 0, server: 1, client: 1, '.': 2 },
  temporal: { connection: 0, protocol: 0, workflows: 1, runtime: 1, engine: 1, worker: 2, '.': 3 },
  mcp: { client: 0, server: 0, '.': 1 },
  openapi: { '.': 0 },
  grpc: { '.': 0 },
  adapters: { '.': 0 },
  knowledge: { '.': 0 },
  tools: { web: 0, folder: 1, '.': 2 },
  service: {
    config: 0,
    observe: 1,
    storage: 2,
    brokers: 3,
    reply: 4,
    worker: 5,
    admission: 6,
    http: 7,
    mcp: 8,
    serve: 9,
    conformance: 10,
  },
  client: { '.': 0 },
  gantry: { docs: 0, cli: 1, testing: 1, '.': 2 },
}

/** Packages of one subject, without ranks between their folders. */
const oneSubject: readonly string[] = ['json-schema', 'conformance']

/** The packages that a package may import; there are no cycles. */
const mayImport: { readonly [pack: string]: readonly string[] } = {
  contract: [],
  'json-schema': ['contract'],
  core: ['contract', 'json-schema'],
  sandbox: ['contract', 'json-schema', 'core'],
  'sandbox-wasm': ['contract', 'json-schema', 'core', 'sandbox'],
  'sandbox-containers': ['contract', 'core', 'sandbox'],
  'sandbox-kubernetes': ['contract', 'core', 'sandbox', 'sandbox-containers'],
  'sandbox-microvm': ['contract', 'core', 'sandbox', 'sandbox-containers'],
  'sandbox-proxmox': ['contract', 'core', 'sandbox', 'sandbox-containers'],
  'sandbox-remote': ['contract', 'core', 'sandbox'],
  temporal: ['contract', 'core', 'sandbox', 'sandbox-remote'],
  mcp: ['contract', 'json-schema', 'core', 'adapters', 'client'],
  openapi: ['contract', 'json-schema', 'core'],
  grpc: ['contract', 'json-schema', 'core'],
  adapters: ['contract', 'json-schema', 'core'],
  knowledge: ['contract', 'core'],
  tools: [
    'contract',
    'json-schema',
    'core',
    'knowledge',
    'sandbox',
    'sandbox-containers',
    'sandbox-kubernetes',
    'sandbox-microvm',
    'sandbox-proxmox',
    'sandbox-remote',
    'sandbox-wasm',
    'temporal',
  ],
  client: ['contract'],
  service: [
    'contract',
    'json-schema',
    'core',
    'adapters',
    'client',
    'grpc',
    'knowledge',
    'mcp',
    'openapi',
    'sandbox',
    'sandbox-wasm',
    'tools',
  ],
  gantry: [
    'contract',
    'json-schema',
    'core',
    'adapters',
    'client',
    'grpc',
    'knowledge',
    'mcp',
    'openapi',
    'sandbox',
    'sandbox-containers',
    'sandbox-kubernetes',
    'sandbox-microvm',
    'sandbox-proxmox',
    'sandbox-remote',
    'sandbox-wasm',
    'temporal',
    'tools',
    'service',
  ],
  conformance: [
    'contract',
    'json-schema',
    'core',
    'adapters',
    'knowledge',
    'sandbox',
    'sandbox-containers',
    'sandbox-kubernetes',
    'sandbox-microvm',
    'sandbox-proxmox',
    'sandbox-remote',
    'sandbox-wasm',
    'temporal',
    'tools',
  ],
}

/** Files over the limit, each with the reason why it stays whole. */
const longFiles: { readonly [file: string]: string } = {
  'packages/contract/src/codes.ts': 'one table; a code is one row of eight lines',
}

interface Import {
  readonly from: string
  readonly specifier: string
}

function importsOf(file: string): Import[] {
  const text = readFileSync(join(root, file), 'utf8')
  const found = text.matchAll(/(?:^|\n)\s*(?:import|export)\b[^'"]*?from\s+'([^']+)'|\bimport\(\s*'([^']+)'\s*\)/g)
  return [...found].map((match) => ({ from: file, specifier: match[1] ?? match[2] ?? '' }))
}

/** The file of an import specifier, for our own packages. */
function targetOf(from: string, specifier: string): string | undefined {
  if (specifier.startsWith('.')) return relative(root, join(root, dirname(from), specifier))
  const [, pack, path] = /^@gantry\/([a-z-]+)\/internal\/(.+)$/.exec(specifier) ?? []
  return pack === undefined ? undefined : `packages/${pack}/src/${path}.ts`
}

function placeOf(file: string): { pack: string; folder: string } {
  const [, pack = '', , first = '', ...rest] = file.split('/')
  return { pack, folder: rest.length === 0 ? '.' : first }
}

function rankOf(file: string): number {
  const { pack, folder } = placeOf(file)
  const rank = ranks[pack]?.[folder]
  assert.notEqual(
    rank,
    undefined,
    `${file}: the folder ${pack}/${folder} has no rank; add it to the table and ARCHITECTURE.md`,
  )
  return rank ?? 0
}

test('a folder imports only from folders of a lower rank, never from a neighbour', () => {
  const wrong: string[] = []
  for (const { from, specifier } of code.flatMap(importsOf)) {
    if (!specifier.startsWith('.')) continue
    const target = relative(root, join(root, dirname(from), specifier))
    const [here, there] = [placeOf(from), placeOf(target)]
    if (here.pack !== there.pack) wrong.push(`${from} reaches into ${target}; import the package by name`)
    else if (oneSubject.includes(here.pack)) continue
    else if (here.folder !== there.folder && rankOf(target) >= rankOf(from)) wrong.push(`${from} → ${target}`)
  }
  assert.deepEqual(wrong, [])
})

test('folders side by side inside the service do not import each other mutually', () => {
  const seen = new Set<string>()
  for (const { from, specifier } of code.flatMap(importsOf)) {
    if (!specifier.startsWith('.') || placeOf(from).pack !== 'service') continue
    const [here, there] = [dirname(from), dirname(join(dirname(from), specifier))]
    const nested = here === there || here.startsWith(`${there}/`) || there.startsWith(`${here}/`)
    if (!nested) seen.add(`${here} → ${there}`)
  }
  const mutual = [...seen].filter((edge) => seen.has(edge.split(' → ').reverse().join(' → ')))
  assert.deepEqual(mutual, [])
})

test('a package imports only packages of the table, which has no cycle', () => {
  const wrong: string[] = []
  for (const { from, specifier } of code.flatMap(importsOf)) {
    const target = /^@gantry\/([a-z-]+)/.exec(specifier)?.[1]
    if (target === placeOf(from).pack) continue
    if (target !== undefined && !mayImport[placeOf(from).pack]?.includes(target)) wrong.push(`${from} → ${specifier}`)
  }
  assert.deepEqual(wrong, [])
})

test('code outside tests imports only what its package declares', () => {
  const wrong: string[] = []
  for (const { from, specifier } of code.flatMap(importsOf)) {
    if (specifier.startsWith('.') || specifier.startsWith('node:')) continue
    if (isSuite(from)) continue
    const name = specifier
      .split('/')
      .slice(0, specifier.startsWith('@') ? 2 : 1)
      .join('/')
    // A package may import its own public entry points, which its bundle leaves external.
    if (name === `@gantry/${placeOf(from).pack}` || name === placeOf(from).pack) continue
    const manifest = JSON.parse(readFileSync(join(root, 'packages', placeOf(from).pack, 'package.json'), 'utf8'))
    // An optional peer is loaded only where it is installed.
    const declared = { ...manifest.dependencies, ...manifest.peerDependencies }
    if (declared[name] === undefined) wrong.push(`${from} → ${specifier}`)
  }
  assert.deepEqual(wrong, [])
})

/** Suites are for tests only, so they may use what tests use. */
function isSuite(file: string): boolean {
  const { pack, folder } = placeOf(file)
  return pack === 'conformance' || folder === 'conformance'
}

test('only tests import a conformance suite', () => {
  const wrong = code
    .filter((file) => !isSuite(file))
    .flatMap(importsOf)
    .filter(({ specifier }) => specifier.includes('conformance'))
  assert.deepEqual(wrong, [])
})

/** A subject is rarely longer; with less room a subject is cut into slivers that only make sense together. */
const longest = 400

test(`no file is over ${longest} lines without a reason`, (t) => {
  const lines = code.map((file) => ({ file, lines: readFileSync(join(root, file), 'utf8').split('\n').length - 1 }))
  const long = lines.filter(({ file, lines }) => lines > longest && longFiles[file] === undefined)
  assert.deepEqual(long, [])
  for (const file of Object.keys(longFiles)) assert.ok(code.includes(file), `${file} is excused but does not exist`)
  const importers = new Map<string, Set<string>>()
  for (const { from, specifier } of code.flatMap(importsOf)) {
    const target = targetOf(from, specifier)
    if (target !== undefined) importers.set(target, (importers.get(target) ?? new Set()).add(from))
  }
  const slivers = lines.filter(({ file, lines }) => lines < 40 && importers.get(file)?.size === 1)
  t.diagnostic(`${code.length} source files, ${slivers.length} of them under 40 lines with a single importer`)
})

/**
 * A reader finds a subject by the names of files; with more of them, files are slivers of subjects again. Merge a new
 * sliver into the file of its subject before raising this. A package for one more engine adds its own files.
 */
const mostFiles = 800
const ofEngines = /^packages\/(?:sandbox-kubernetes|sandbox-microvm|sandbox-proxmox|temporal)\//

test(`there are fewer than ${mostFiles} source files without tests, fixtures and packages of single engines`, () => {
  const count = code.filter((file) => !ofEngines.test(file)).length
  assert.ok(count < mostFiles, `${count} source files`)
})

test('public names are exported one by one: no `export *`, no default export', () => {
  const wrong = code.filter((file) => /^export (\*|default)/m.test(readFileSync(join(root, file), 'utf8')))
  assert.deepEqual(wrong, [])
})

test('there is no module-level `let`: state lives in what a function returns', () => {
  const wrong = code.filter((file) => /^(export )?(let|var) /m.test(readFileSync(join(root, file), 'utf8')))
  assert.deepEqual(wrong, [])
})

test('no code is generated from data: neither eval, the Function constructor nor node:vm appears', () => {
  const wrong = code.filter((file) => /\beval\(|new Function\(|node:vm/.test(stripComments(file)))
  assert.deepEqual(wrong, [])
})

function stripComments(file: string): string {
  return readFileSync(join(root, file), 'utf8').replace(/\/\*[\s\S]*?\*\/|\/\/[^\n]*/g, '')
}

/** In a plural folder the singular file is the interface; these are its drivers and the suite each must run. */
const drivers: readonly {
  readonly pack?: string
  readonly folder: string
  readonly suite: string
  readonly files: readonly string[]
  /** The file of the interface, where that is not the folder in the singular. */
  readonly interface?: string
  /** Backends that serve nothing but tools of their own, which the suite could not bring to add two numbers. */
  readonly own?: readonly string[]
}[] = [
  {
    pack: 'service',
    folder: 'storage/artifacts',
    suite: 'testArtifactStore',
    files: ['folder', 's3'],
    interface: 'artifact-store',
  },
  {
    pack: 'service',
    folder: 'storage/calls',
    suite: 'testCallStore',
    files: ['memory', 'sql'],
    interface: 'call-store',
  },
  { pack: 'service', folder: 'brokers/transports', suite: 'testTransport', files: ['kafka', 'postgres', 'redis'] },
  { pack: 'service', folder: 'storage/databases', suite: 'testDatabase', files: ['pglite', 'postgres'] },
  {
    pack: 'service',
    folder: 'http/authentication',
    suite: 'testAuthenticator',
    files: ['authenticator', 'signed-request', 'stored-key', 'token'],
    interface: 'authenticator',
  },
  { folder: 'catalogs', suite: 'testCatalog', files: ['memory'] },
  { folder: 'backends', suite: 'testBackend', files: ['local', 'http'] },
  { pack: 'grpc', folder: '.', suite: 'testBackend', files: ['grpc'], interface: 'grpc' },
  { pack: 'mcp', folder: 'client', suite: 'testBackend', files: ['mcp'], interface: 'mcp' },
  {
    pack: 'sandbox',
    folder: 'backends',
    suite: 'testBackend',
    files: ['sandboxed'],
    interface: 'sandboxed',
    own: ['session'],
  },
  {
    pack: 'sandbox',
    folder: 'drivers',
    suite: 'testRuntime',
    files: ['process', 'unsafe-host'],
    interface: 'launcher-runtime',
    own: ['launcher-runtime'],
  },
  { pack: 'sandbox-remote', folder: 'client', suite: 'testRuntime', files: ['remote'], interface: 'remote' },
  { pack: 'sandbox-wasm', folder: '.', suite: 'testRuntime', files: ['wasm'], interface: 'index' },
  { folder: 'policies', suite: 'testPolicy', files: ['rules', 'all-of', 'tenant-tools'] },
  { folder: 'pins', suite: 'testPinStore', files: ['memory', 'file'] },
  {
    pack: 'knowledge',
    folder: '.',
    suite: 'testKnowledge',
    files: ['memory'],
    interface: 'knowledge',
    own: ['knowledge-backend'],
  },
  { folder: 'audits', suite: 'testAudit', files: ['memory'] },
  { folder: 'secrets', suite: 'testSecretSource', files: ['memory', 'environment', 'file', 'encrypted', 'first-of'] },
  {
    pack: 'adapters',
    folder: '.',
    suite: 'testAdapter',
    files: ['ai-sdk', 'anthropic', 'gemini', 'mcp', 'openai-chat', 'openai-responses'],
    interface: 'adapter',
  },
]

test('every driver runs the conformance suite of its interface', () => {
  for (const { pack = 'core', folder, suite, files, interface: named } of drivers) {
    const base = join(root, 'packages', pack, 'src', folder)
    const singular = named ?? (folder === 'policies' ? 'policy' : basename(folder).slice(0, -1))
    assert.ok(globSync(`${singular}.ts`, { cwd: base }).length === 1, `${folder}/ has no ${singular}.ts`)
    for (const file of files) {
      const text = readFileSync(join(base, `${file}.test.ts`), 'utf8')
      assert.match(text, new RegExp(`\\b${suite}\\(`), `${folder}/${file}.test.ts does not call ${suite}`)
    }
  }
})

test('the list of drivers names every file that implements an interface', () => {
  const implementing =
    /(?:implements|\):|: )\s*(?:Memory|Local)?(Catalog|Backend|Policy|Audit|SecretSource|PinStore|Knowledge|Adapter|Runtime|CallStore|Transport|ArtifactStore|Authenticator|Promise<Database>|Promise<Transport>)(?:<.*>)?\s*(?:\{|$|=>)/m
  for (const { pack = 'core', folder, files, own = [] } of drivers) {
    const found = globSync(`packages/${pack}/src/${folder}/*.ts`, { cwd: root })
      .filter((file) => !file.endsWith('.test.ts'))
      .filter((file) => /export (?:async )?function \w+(?:<\w+>)?\(/.test(readFileSync(join(root, file), 'utf8')))
      // A property of the type is a use of the interface, not an implementation.
      .filter((file) => implementing.test(readFileSync(join(root, file), 'utf8').replaceAll(/^ *readonly .*$/gm, '')))
      .map((file) => basename(file, '.ts'))
    assert.deepEqual(found.sort(), [...files, ...own].sort(), `drivers in ${folder}/`)
  }
})

test('docs/errors.md says exactly what the error table says', () => {
  assert.equal(readFileSync(join(root, 'docs/errors.md'), 'utf8'), errorsPage(codes))
})

test('ARCHITECTURE.md names every folder of core, sandboxes and service, and every package', () => {
  const text = readFileSync(join(root, 'ARCHITECTURE.md'), 'utf8')
  const folders = new Set(
    code
      .filter((file) =>
        /^packages\/(?:core|service|sandbox|sandbox-containers|sandbox-kubernetes|sandbox-microvm|sandbox-proxmox|sandbox-remote|sandbox-wasm|temporal)\//.test(
          file,
        ),
      )
      .map((file) => placeOf(file).folder),
  )
  folders.delete('.')
  for (const pack of Object.keys(mayImport)) folders.add(pack)
  for (const folder of folders) assert.ok(text.includes(`\`${folder}/\``), `ARCHITECTURE.md does not name ${folder}/`)
})

test('all packages share one version: the changesets bump them together', () => {
  const names = globSync('packages/*/package.json', { cwd: root }).map((file) => {
    const { name, version } = JSON.parse(readFileSync(join(root, file), 'utf8'))
    return { name, version }
  })
  const { fixed } = JSON.parse(readFileSync(join(root, '.changeset/config.json'), 'utf8'))
  assert.deepEqual(fixed.flat().sort(), names.map(({ name }) => name).sort())
  assert.equal(new Set(names.map(({ version }) => version)).size, 1)
})
