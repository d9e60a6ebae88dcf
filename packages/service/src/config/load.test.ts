import assert from 'node:assert/strict'
import { mkdirSync, truncateSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { checkConfig } from './check-config.ts'
import { folderWith } from './config.fixture.ts'
import type { LoadedConfig } from './config.ts'
import { loadConfig } from './load.ts'

const signal = new AbortController().signal

function load(folder: string, environment: NodeJS.ProcessEnv = {}, file?: string): Promise<LoadedConfig> {
  return loadConfig({ folder, environment, signal, ...(file === undefined ? {} : { file }) })
}

/** The refusal of a folder's configuration, as lines. */
async function problems(
  files: { readonly [name: string]: string },
  environment: NodeJS.ProcessEnv = {},
): Promise<string> {
  using folder = folderWith(files)
  try {
    await load(folder.path, environment)
  } catch (error) {
    assert.ok(ToolError.is(error), String(error))
    assert.equal(error.code, 'CONFIG_INVALID')
    const issues = (error.details?.issues ?? []).map(({ path, message }) => `${path} ${message}`)
    return [error.message.replaceAll(folder.path, ''), ...issues].join('\n')
  }
  return assert.fail('it was accepted')
}

test('without a file the demo tools are served, and the environment still counts', async () => {
  using folder = folderWith({})
  const options = { runtimes: {} }
  const { service, ...plain } = await load(folder.path)
  assert.deepEqual(plain, { file: undefined, builtins: true, demo: true, options, warnings: [] })
  assert.deepEqual([service.port, service.data], [7420, join(folder.path, '.gantry')])
  const loaded = await load(folder.path, { GANTRY_TIMEOUT_MS: '250', GANTRY_FORMAT: 'assert', SANDBOX_ROOT: 'boxes' })
  const runtimes = { root: join(folder.path, 'boxes') }
  assert.deepEqual(loaded.options, { runtimes, limits: { timeoutMs: 250 }, format: 'assert' })
})

test('the environment says how the service runs, over the file', async () => {
  const own = { service: { port: 1, slots: 2, host: '0.0.0.0' }, databaseUrl: 'postgres://file/db' }
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(own) })
  const { service, options } = await load(folder.path, {
    GANTRY_PORT: '8000',
    GANTRY_ROLES: 'api, relay',
    DATABASE_URL: 'postgresql://environment/db',
    TOOL_EXECUTOR_MAX_WORKERS: '7',
    TIMEOUT_SECONDS: '1.5',
    GANTRY_DATA: 'kept',
  })
  const { host, port, roles, slots, databaseUrl, data } = service
  assert.deepEqual(
    { host, port, roles, slots, databaseUrl, data },
    {
      host: '0.0.0.0',
      port: 8000,
      roles: ['api', 'relay'],
      slots: 7,
      databaseUrl: 'postgresql://environment/db',
      data: join(folder.path, 'kept'),
    },
  )
  assert.equal(options.limits?.timeoutMs, 1_500)
})

test('a wrong variable of the service is named', async () => {
  using folder = folderWith({})
  await assert.rejects(load(folder.path, { GANTRY_PORT: '70000', DATABASE_URL: 'mysql://x' }), (error) => {
    const issues = (error as ToolError).details?.issues ?? []
    assert.deepEqual(issues.map(({ path }) => path).sort(), ['/databaseUrl', '/service/port'])
    return true
  })
})

test('profiles and runtimes of a file are checked where they stand, and the environment names the root over it', async () => {
  const own = { runtimes: { root: 'mine', pool: { max: 2 } }, profiles: { dev: { unsafeHost: true } }, builtins: false }
  using folder = folderWith({ 'gantry.config.json': JSON.stringify(own) })
  const { options, builtins } = await load(folder.path)
  assert.deepEqual(
    [options.runtimes, builtins],
    [{ root: join(folder.path, 'mine'), pool: { max: 2 }, profiles: own.profiles }, false],
  )
  using wrong = folderWith({
    'gantry.config.json': JSON.stringify({ runtimes: { pol: false }, profiles: { standard: { floor: 'none' } } }),
  })
  await assert.rejects(load(wrong.path), (error) => {
    const paths = ToolError.is(error) ? error.details?.issues?.map(({ path }) => path) : []
    assert.deepEqual(paths, ['/runtimes/pol', '/profiles/standard/floor'])
    return true
  })
})

test('the command line names the file before the variable, the variable before the nearest', async () => {
  using folder = folderWith({ 'gantry.config.json': '{}', 'b.json': '{}', 'c.yaml': 'demo: true' })
  const names = async (environment: NodeJS.ProcessEnv, file?: string) =>
    (await load(folder.path, environment, file)).file?.slice(folder.path.length + 1)
  assert.equal(await names({}), 'gantry.config.json')
  assert.equal(await names({ GANTRY_CONFIG: 'b.json' }), 'b.json')
  assert.equal(await names({ GANTRY_CONFIG: 'b.json' }, 'c.yaml'), 'c.yaml')
})

test('the search goes up to the top of the repository and no further', async () => {
  using folder = folderWith({ 'gantry.config.json': '{}', 'inner/deep/file': '' })
  assert.equal((await load(join(folder.path, 'inner/deep'))).file, join(folder.path, 'gantry.config.json'))
  mkdirSync(join(folder.path, 'inner/.git'))
  assert.equal((await load(join(folder.path, 'inner/deep'))).file, undefined)
})

test('two files in one folder are refused by name', async () => {
  const text = await problems({ 'gantry.config.json': '{}', 'gantry.config.yaml': '' })
  assert.match(text, /\/gantry\.config\.json and \/gantry\.config\.yaml/)
})

test('a file that is not there or of an unknown kind is refused', async () => {
  using folder = folderWith({ 'config.toml': '' })
  await assert.rejects(load(folder.path, {}, 'nowhere.json'), /--config names .*nowhere\.json, which does not exist\./)
  await assert.rejects(load(folder.path, { GANTRY_CONFIG: '.' }), /GANTRY_CONFIG names .* is not a file\./)
  await assert.rejects(load(folder.path, {}, 'config.toml'), /must end in \.ts/)
})

test('every wrong or unknown key is listed with its path and a suggestion', async () => {
  const config = {
    polcy: {},
    limits: { timeoutms: 5, argsBytes: -1, chain: { step: 3 } },
    policy: { rules: [{ alow: 'demo:*' }, { allow: 'a', deny: 'b' }] },
    secrets: { TOKEN: 'plain', OTHER: { envv: 'X' }, THIRD: { zzzzzzzz: 'X' } },
    secretStore: { keyfile: 'x' },
    tools: {},
  }
  const text = await problems({ 'gantry.config.json': JSON.stringify(config) })
  assert.match(text, /^\/polcy is not a known key; did you mean policy\?$/m)
  assert.match(text, /^\/limits\/timeoutms is not a known key; did you mean timeoutMs\?$/m)
  assert.match(text, /^\/limits\/chain\/step is not a known key; did you mean steps\?$/m)
  assert.match(text, /^\/limits\/argsBytes must be /m)
  assert.match(text, /^\/policy\/rules\/0\/alow is not a known key; did you mean allow\?$/m)
  assert.match(text, /^\/policy\/rules\/1 /m)
  assert.match(text, /^\/secrets\/TOKEN must be object/m)
  assert.match(text, /^\/secretStore\/keyfile is not a known key; did you mean keyFile\?$/m)
  assert.match(text, /^\/secrets\/OTHER\/envv is not a known key; did you mean env\?$/m)
  assert.match(text, /^\/secrets\/THIRD\/zzzzzzzz is not a known key; known keys: env, file$/m)
  assert.match(text, /^\/tools must be a list of tool definitions/m)
})

test('a wrong variable is named with the key it sets', async () => {
  const text = await problems({ 'gantry.config.json': '{}' }, { GANTRY_TIMEOUT_MS: 'soon', GANTRY_FORMAT: 'strict' })
  assert.match(text, /\/limits\/timeoutMs must be .* \(from the variable GANTRY_TIMEOUT_MS\)/)
  assert.match(text, /\/format must be annotate or assert \(from the variable GANTRY_FORMAT\)/)
})

test('one wrong variable is one problem, and not the file’s', async () => {
  const expected =
    'The environment has a wrong value.\n' +
    '/limits/timeoutMs must be a number of milliseconds above 0 (from the variable GANTRY_TIMEOUT_MS)'
  for (const time of ['abc', '0', '-1', 'Infinity']) {
    assert.equal(await problems({}, { GANTRY_TIMEOUT_MS: time }), expected)
    assert.equal(await problems({ 'gantry.config.json': '{}' }, { GANTRY_TIMEOUT_MS: time }), expected)
  }
  assert.match(await problems({ 'gantry.config.json': '{"a":1}' }, { GANTRY_TIMEOUT_MS: 'abc' }), /has 2 problems/)
})

test('the variables of our tests, our starter and our store are known', async () => {
  using folder = folderWith({})
  const environment = { GANTRY_ENGINES: 'all', GANTRY_SOAK_SEED: '1', GANTRY_BUNDLE: 'off', GANTRY_SECRETS_KEY: 'x' }
  assert.deepEqual((await load(folder.path, environment)).warnings, [])
})

test('a variable nobody reads is a warning that shows its name, not its value', async () => {
  using folder = folderWith({})
  const { warnings } = await load(folder.path, { GANTRY_TIMEOUT: 'secret', PATH: '/bin' })
  assert.deepEqual(warnings, ['The variable GANTRY_TIMEOUT is not used. Did you mean GANTRY_TIMEOUT_MS?'])
})

test('JSON and YAML that are not plain data are refused with the place', async () => {
  assert.match(await problems({ 'gantry.config.json': '{\n "demo": tru }' }), /line 2, column \d+/)
  assert.match(
    await problems({ 'gantry.config.json': '{"__proto__": {}}' }),
    /\/__proto__ is a key that is not allowed/,
  )
  assert.match(await problems({ 'gantry.config.yaml': 'demo: true\ndemo: false' }), /line 2: Map keys must be unique/)
  assert.match(await problems({ 'gantry.config.yaml': 'a: [1' }), /not valid YAML/)
  assert.match(await problems({ 'gantry.config.yaml': '__proto__: {a: 1}' }), /__proto__/)
  assert.match(await problems({ 'gantry.config.yaml': '- a' }), /must be an object/)
  assert.match(await problems({ 'gantry.config.yaml': 'demo: !!js/function x' }), /Unresolved tag/)
})

test('YAML made of mistakes is refused with the first of them', async () => {
  const text = await problems({ 'gantry.config.yaml': `{${'? '.repeat(100_000)}` })
  assert.match(text, /not valid YAML\.\n line 1: Unexpected \? in flow map\n/)
  assert.match(text, /\n and \d+ more$/)
  assert.equal(text.split('\n').length, 22)
})

test('YAML of many keys or aliases does not take the square of their number', async () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `k${index}: 1`)
  assert.match(await problems({ 'gantry.config.yaml': [...names, 'k0: 1'].join('\n') }), /line 20001: Map keys must/)
  const aliases = Array.from({ length: 10_000 }, (_, index) => `- &a${index} x\n- *a${index}`)
  assert.match(
    await problems({ 'gantry.config.yaml': aliases.join('\n') }),
    /line 202: There are more than 100 aliases/,
  )
})

test('a file of data that is too long is refused by its size', async () => {
  for (const [name, limit] of [
    ['gantry.config.json', 1_048_576],
    ['gantry.config.yaml', 262_144],
  ] as const) {
    using folder = folderWith({ [name]: '' })
    truncateSync(join(folder.path, name), 3_000_000_000)
    await assert.rejects(load(folder.path), {
      code: 'CONFIG_INVALID',
      message: new RegExp(`longer than ${limit} bytes`),
    })
  }
})

test('a configuration that throws something hostile is refused like any that throws', async () => {
  const trap = (name: string) => `get ${name}() { throw 1 }`
  const thrown = [
    '{ toString() { throw 1 } }',
    `Object.defineProperties(new Error('x'), Object.getOwnPropertyDescriptors({ ${['name', 'message', 'stack', 'cause'].map(trap).join(', ')} }))`,
    'new Proxy({}, { get() { throw 1 }, has() { throw 1 }, getPrototypeOf() { throw 1 } })',
    `{ [Symbol.for('gantry.error')]: true, code: 'NOPE', message: 'x' }`,
    'undefined',
    'Symbol()',
  ]
  for (const value of thrown) {
    assert.match(await problems({ 'gantry.config.mjs': `throw ${value}` }), /could not be loaded: it failed/, value)
    const later = `export default { get tools() { throw ${value} } }`
    assert.match(await problems({ 'gantry.config.mjs': later }), /cannot be read/, value)
  }
})

test('a YAML bomb of aliases is refused', async () => {
  const rows = ['a0: &a0 [x, x, x]']
  for (let level = 1; level < 12; level++) rows.push(`a${level}: &a${level} [${`*a${level - 1}, `.repeat(9)}]`)
  assert.match(await problems({ 'gantry.config.yaml': rows.join('\n') }), /cannot be read/)
})

test('a module may export an object, a function or an async function', async () => {
  for (const text of ['{ demo: true }', '() => ({ demo: true })', 'async () => ({ demo: true })']) {
    using folder = folderWith({ 'gantry.config.mjs': `export default ${text}` })
    assert.equal((await load(folder.path)).demo, true)
  }
})

test('a file without a word is refused, whatever kind of module it counts as', async () => {
  for (const name of ['gantry.config.ts', 'gantry.config.js', 'gantry.config.mjs']) {
    for (const text of ['', '\n', '// nothing yet\n']) {
      assert.match(await problems({ [name]: text }), /has no default export/)
    }
  }
  assert.match(await problems({ 'gantry.config.yaml': '' }), /must be an object/)
  assert.notEqual(await problems({ 'gantry.config.json': '' }), '')
  using folder = folderWith({ 'gantry.config.js': 'module.exports = { demo: true }' })
  assert.equal((await load(folder.path)).demo, true)
})

test('a module that throws, does not parse or exports nothing is refused with its line and its cause', async () => {
  assert.match(await problems({ 'gantry.config.mjs': 'export const a = 1' }), /has no default export/)
  assert.match(await problems({ 'gantry.config.mjs': '\n\nthrow new Error("no")' }), /failed at line 3/)
  assert.match(await problems({ 'gantry.config.mjs': '\nexport default {{' }), /failed at line 2/)
  assert.match(await problems({ 'gantry.config.ts': 'export default 5' }), /must be an object/)
  using folder = folderWith({ 'gantry.config.mjs': 'export default () => { throw new TypeError("no") }' })
  await assert.rejects(load(folder.path), (error: Error) => error.cause instanceof TypeError)
})

test('a module anywhere on disk may import this installation of the packages', async () => {
  const config = `import { defineTool, grpc } from 'gantry'
    import { ToolError } from '@gantry/contract'
    import { mcp } from '@gantry/mcp'
    if (typeof grpc !== 'function' || typeof mcp !== 'function') throw new Error('a package is missing')
    const hi = defineTool({ namespace: 'my', name: 'hi', description: 'Says hi.', inputSchema: { type: 'object' }, run: () => 'hi' })
    export default { tools: [hi], secrets: { get: () => ToolError.name }, policy: { decide: () => ({ effect: 'allow' }) } }`
  using folder = folderWith({ 'gantry.config.ts': config })
  const { options, demo } = await load(folder.path)
  assert.equal(options.tools?.[0]?.tool.name, 'hi')
  assert.equal(typeof options.policy, 'object')
  assert.equal(demo, false)
})

test('tools must come from defineTool', async () => {
  assert.match(
    await problems({ 'gantry.config.mjs': 'export default { tools: [{}] }' }),
    /\/tools\/0 must be what defineTool/,
  )
  assert.match(await problems({ 'gantry.config.mjs': 'export default { tools: {} }' }), /\/tools must be a list/)
  assert.match(await problems({ 'gantry.config.mjs': 'export default { limits: () => 1 }' }), /\/limits is a function/)
})

test('backends are objects of a module', async () => {
  using folder = folderWith({
    'gantry.config.mjs': `class Far { kind = 'far'; name = 'moon'; call() {} }
      export default { backends: [new Far()] }`,
  })
  assert.equal((await load(folder.path)).options.backends?.[0]?.name, 'moon')
  const wrong = await problems({
    'gantry.config.mjs': `export default { backends: [{ kind: 'a', name: 'b' }, { kind: '', name: 'b', call() {} }, 5] }`,
  })
  for (const index of [0, 1, 2])
    assert.match(wrong, new RegExp(`^/backends/${index}/kind must be .* an object with kind, name and a function`, 'm'))
  assert.match(await problems({ 'gantry.config.mjs': 'export default { backends: {} }' }), /\/backends must be a list/)
  assert.match(await problems({ 'gantry.config.mjs': 'export default { backend: [] }' }), /did you mean backends\?/)
})

test('backends may be data in every kind of file, beside live ones in a module', async () => {
  const data = { kind: 'http', name: 'api', baseUrl: 'https://api.example.com' }
  const files = {
    'gantry.config.json': JSON.stringify({ backends: [data] }),
    'gantry.config.yaml': 'backends: [{ kind: mcp, name: api, command: [node, server.js] }]',
    'gantry.config.mjs': `export default { backends: [${JSON.stringify(data)}, { kind: 'far', name: 'moon', call() {} }] }`,
  }
  for (const [name, text] of Object.entries(files)) {
    using folder = folderWith({ [name]: text })
    const { options } = await load(folder.path)
    assert.equal(options.backends?.[0]?.name, 'api', name)
    if (name.endsWith('.mjs')) assert.equal(options.backends?.[1]?.name, 'moon')
  }
})

test('the tools of an HTTP backend may be in a file, or be an OpenAPI document', async () => {
  const document = {
    openapi: '3.1.0',
    info: { title: 'Things', version: '1.0.0' },
    servers: [{ url: 'https://api.example.com' }],
    paths: { '/things': { get: { operationId: 'list_things', responses: { 200: { description: 'All.' } } } } },
  }
  using folder = folderWith({
    'gantry.config.json': JSON.stringify({ backends: [{ kind: 'http', name: 'things', openapi: 'openapi.json' }] }),
    'openapi.json': JSON.stringify(document),
  })
  const { options } = await load(folder.path)
  assert.equal(typeof options.backends?.[0]?.discover, 'function')
  const missing = { backends: [{ kind: 'http', name: 'things', openapi: 'nowhere.json' }] }
  assert.match(
    await problems({ 'gantry.config.json': JSON.stringify(missing) }),
    /^\/backends\/0\/openapi names .*The file \/.*nowhere\.json cannot be read\. \(ENOENT\)$/m,
  )
})

test('a value that throws when it is read is refused with the file and the key', async () => {
  const throwing = (key: string) => `export default { get ${key}() { throw new Error('no') } }`
  for (const key of ['tools', 'backends', 'policy', 'limits', 'other']) {
    const text = await problems({ 'gantry.config.mjs': throwing(key) })
    assert.equal(text, `The configuration /gantry.config.mjs cannot be read.\n/${key} throws when it is read`)
  }
  const nested = `export default { limits: { get timeoutMs() { throw new Error('no') } } }`
  assert.match(await problems({ 'gantry.config.mjs': nested }), /^\/limits\/timeoutMs could not be read$/m)
  const live = `export default { policy: { get decide() { throw new Error('no') } } }`
  assert.match(await problems({ 'gantry.config.mjs': live }), /^The configuration \/gantry\.config\.mjs cannot be read/)
  using folder = folderWith({ 'gantry.config.mjs': throwing('tools') })
  await assert.rejects(load(folder.path), ({ cause }: Error) => cause instanceof Error && cause.message === 'no')
})

test('a tool that throws when it is read is refused by its place', async () => {
  const config = `export default { tools: [{ get tool() { throw new Error('no') }, run() {} }] }`
  using folder = folderWith({ 'gantry.config.mjs': config })
  await assert.rejects(checkConfig({ folder: folder.path, environment: {}, signal }), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'CONFIG_INVALID')
    assert.equal(error.details?.issues?.[0]?.path, '/tools/0')
    return true
  })
})

test('secrets are read from the variables they name, at the last moment', async () => {
  using folder = folderWith({ 'gantry.config.yaml': 'secrets: { TOKEN: { env: MY_TOKEN } }' })
  const environment: NodeJS.ProcessEnv = {}
  const { options } = await load(folder.path, environment)
  environment.MY_TOKEN = 'later'
  const source = options.secrets as { get(name: string): Promise<unknown> }
  assert.equal(await source.get('TOKEN'), 'later')
  assert.equal(await source.get('PATH'), undefined)
})

test('whatever is wrong with backends, egress or safeguards is named with its path', async () => {
  const cases: [object, RegExp][] = [
    [
      { backends: [{ kind: 'htp', name: 'x' }] },
      /\/backends\/0\/kind must be one of mcp, grpc, http; did you mean http/,
    ],
    [{ backends: [{ kind: 'http', name: 'x', baseUrll: 'https://a.example' }] }, /\/backends\/0\/baseUrl/],
    [{ backends: [{ kind: 'mcp', name: 'x' }] }, /\/backends\/0/],
    [{ egress: { alow: [] } }, /\/egress\/alow.*allow/],
    [{ egress: { allow: ['api.example.com'] } }, /\/egress\/allow\/0/],
    [{ safeguards: { bulkhed: {} } }, /\/safeguards\/bulkhed.*bulkhead/],
    [{ mcp: { surface: 'all' } }, /\/mcp\/surface/],
    [{ mcp: { surfaces: 'tools' } }, /\/mcp\/surfaces.*surface/],
    [{ mcp: { surface: 'compact', namespace: 'a' } }, /\/mcp/],
    [{ tools: [{ namespace: 'a' }] }, /\/tools\/0/],
    [{ secrets: { A: { env: 'A', file: 'b' } } }, /\/secrets\/A/],
  ]
  for (const [config, message] of cases) {
    using folder = folderWith({ 'gantry.config.json': JSON.stringify(config) })
    await assert.rejects(checkConfig({ folder: folder.path, environment: {}, signal }), (error) => {
      assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
      const issues = (error.details?.issues ?? []).map((issue) => `${issue.path} ${issue.message}`)
      assert.match(issues.join('; '), message)
      return true
    })
  }
})

test('mistakes that only the executor knows are listed with all the others', async () => {
  const api = { kind: 'http', name: 'api', baseUrl: 'https://api.example.com' }
  const config = {
    limits: { timeoutms: 5 },
    policy: { rules: [{ allow: 'a*b' }] },
    egress: { alow: [] },
    safeguards: {
      breaker: { mincalls: 5 },
      bulkhed: {},
      rate: { perSecond: -1, burst: 1 },
      backends: { 'http:api': { bulkhead: { most: 0 } }, 'http:apo': {}, local: null },
    },
    backends: [api, api],
  }
  const text = await problems({ 'gantry.config.json': JSON.stringify(config) })
  for (const path of [
    '/limits/timeoutms',
    '/policy/rules/0',
    '/egress/alow',
    '/safeguards/breaker/mincalls',
    '/safeguards/bulkhed',
    '/safeguards/rate/perSecond',
    '/safeguards/backends/http:api/bulkhead/most',
    '/safeguards/backends/http:apo',
    '/safeguards/backends/local must be an object',
    '/backends Two backends',
  ]) {
    assert.ok(
      text.split('\n').some((line) => line.startsWith(path)),
      `${path} in ${text}`,
    )
  }
  assert.match(
    await problems({ 'gantry.config.json': '{"safeguards":{"breaker":{"mincalls":1}}}' }),
    /breaker\/mincalls/,
  )
})

test('a file that a backend names is blamed at the key that names it', async () => {
  const cases: [object, RegExp][] = [
    [{ openapi: 'old.json' }, /^\/backends\/0\/openapi names .*Swagger 2\.0/m],
    [{ openapi: 'bad.json' }, /^\/backends\/0\/openapi names .*bad\.json is not valid JSON/m],
    [{ openapi: 'old.json', tools: 'old.json' }, /^\/backends\/0\/openapi stands for tools/m],
    [{ openapi: 'bare.json', name: 'a b' }, /^\/backends\/0\/name /m],
    [{ openapi: 'bare.json' }, /^\/backends\/0\/openapi names .*give the base URL/m],
    [{ tools: 'bad.json' }, /^\/backends\/0\/tools names .*bad\.json is not valid.* line 1/m],
    [{ tools: 'none.json' }, /^\/backends\/0\/tools names .*none\.json cannot be read\. \(ENOENT\)/m],
    [{ tools: 'old.json' }, /^\/backends\/0\/tools names a file without a list of tools/m],
  ]
  for (const [options, said] of cases) {
    const backends = [{ kind: 'http', name: 'api', ...options }]
    const files = {
      'old.json': '{"swagger":"2.0"}',
      'bad.json': '{"a":',
      'bare.json': '{"openapi":"3.1.0","paths":{}}',
    }
    assert.match(await problems({ ...files, 'gantry.config.json': JSON.stringify({ backends }) }), said)
  }
})
