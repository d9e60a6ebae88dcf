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

test('without a file the configuration has the demo tools and the settings of the environment', async () => {
  using folder = folderWith({})
  const options = { runtimes: {} }
  const { service, shared, ...plain } = await load(folder.path)
  assert.match(String(shared), /^[0-9a-f]{64}$/)
  assert.deepEqual(plain, { file: undefined, builtins: true, demo: true, options, warnings: [] })
  assert.deepEqual([service.port, service.data], [7420, join(folder.path, '.gantry')])
  const loaded = await load(folder.path, { GANTRY_TIMEOUT_MS: '250', GANTRY_FORMAT: 'assert', SANDBOX_ROOT: 'boxes' })
  const runtimes = { root: join(folder.path, 'boxes') }
  assert.deepEqual(loaded.options, { runtimes, limits: { timeoutMs: 250 }, format: 'assert' })
})

test('environment variables override the service settings of the file', async () => {
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

test('an invalid service variable is refused with the path of its key', async () => {
  using folder = folderWith({})
  await assert.rejects(load(folder.path, { GANTRY_PORT: '70000', DATABASE_URL: 'mysql://x' }), (error) => {
    const issues = (error as ToolError).details?.issues ?? []
    assert.deepEqual(issues.map(({ path }) => path).sort(), ['/databaseUrl', '/service/port'])
    return true
  })
})

test('profiles and runtimes of a file are resolved and checked with their paths', async () => {
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

test('runtimes in containers are configured under their kinds, and profiles may name those that are', async () => {
  const runtimes = {
    docker: { socket: '/run/docker.sock', image: 'mine:1', processors: 2 },
    gvisor: { runtime: 'runsc-kvm' },
  }
  const profiles = { boxed: { floor: 'container', runtimes: ['docker', 'gvisor'] } }
  using folder = folderWith({ 'gantry.config.json': JSON.stringify({ runtimes, profiles }) })
  assert.deepEqual((await load(folder.path)).options.runtimes, { ...runtimes, profiles })

  const wrongPaths = async (config: object) => {
    using wrong = folderWith({ 'gantry.config.json': JSON.stringify(config) })
    return await load(wrong.path).then(
      () => assert.fail('It was taken.'),
      (error: unknown) =>
        ToolError.is(error) ? error.details?.issues?.map(({ path }) => path) : assert.fail(String(error)),
    )
  }
  assert.deepEqual(
    await wrongPaths({
      runtimes: {
        docker: { socket: 'docker.sock', host: { name: 'build', port: 0 }, procesors: 1 },
        gvisor: { platform: 1 },
        kata: { image: '' },
      },
    }),
    [
      '/runtimes/docker/procesors',
      '/runtimes/docker/socket',
      '/runtimes/docker/host/port',
      '/runtimes/gvisor/platform',
      '/runtimes/kata/image',
    ],
  )
  const host = { name: 'build.example', port: 2376 }
  assert.deepEqual(await wrongPaths({ runtimes: { docker: { host } } }), ['/runtimes/docker/host/tls'])
  assert.deepEqual(await wrongPaths({ runtimes: { docker: { host, socket: '/s' } } }), ['/runtimes/docker/host'])
  assert.deepEqual(
    await wrongPaths({ runtimes: { docker: {} }, profiles: { boxed: { floor: 'kernel', runtimes: ['gvisor'] } } }),
    ['/profiles/boxed/runtimes'],
  )
})

test('--config wins over GANTRY_CONFIG, which wins over the nearest configuration file', async () => {
  using folder = folderWith({ 'gantry.config.json': '{}', 'b.json': '{}', 'c.yaml': 'demo: true' })
  const names = async (environment: NodeJS.ProcessEnv, file?: string) =>
    (await load(folder.path, environment, file)).file?.slice(folder.path.length + 1)
  assert.equal(await names({}), 'gantry.config.json')
  assert.equal(await names({ GANTRY_CONFIG: 'b.json' }), 'b.json')
  assert.equal(await names({ GANTRY_CONFIG: 'b.json' }, 'c.yaml'), 'c.yaml')
})

test('the search for a configuration file stops at the root of the repository', async () => {
  using folder = folderWith({ 'gantry.config.json': '{}', 'inner/deep/file': '' })
  assert.equal((await load(join(folder.path, 'inner/deep'))).file, join(folder.path, 'gantry.config.json'))
  mkdirSync(join(folder.path, 'inner/.git'))
  assert.equal((await load(join(folder.path, 'inner/deep'))).file, undefined)
})

test('two configuration files in one folder are refused with their names', async () => {
  const text = await problems({ 'gantry.config.json': '{}', 'gantry.config.yaml': '' })
  assert.match(text, /\/gantry\.config\.json and \/gantry\.config\.yaml/)
})

test('a file that does not exist or has an unknown extension is refused', async () => {
  using folder = folderWith({ 'config.toml': '' })
  await assert.rejects(load(folder.path, {}, 'nowhere.json'), /--config names .*nowhere\.json, which does not exist\./)
  await assert.rejects(load(folder.path, { GANTRY_CONFIG: '.' }), /GANTRY_CONFIG names .* is not a file\./)
  await assert.rejects(load(folder.path, {}, 'config.toml'), /must end in \.ts/)
})

test('every invalid or unknown key is listed with its path and a suggestion', async () => {
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

test('an invalid variable is reported with the key it sets', async () => {
  const text = await problems({ 'gantry.config.json': '{}' }, { GANTRY_TIMEOUT_MS: 'soon', GANTRY_FORMAT: 'strict' })
  assert.match(text, /\/limits\/timeoutMs must be .* \(from the variable GANTRY_TIMEOUT_MS\)/)
  assert.match(text, /\/format must be annotate or assert \(from the variable GANTRY_FORMAT\)/)
})

test('one invalid variable is one problem, attributed to the environment and not to the file', async () => {
  const expected =
    'An environment variable has an invalid value.\n' +
    '/limits/timeoutMs must be a number of milliseconds above 0 (from the variable GANTRY_TIMEOUT_MS)'
  for (const time of ['abc', '0', '-1', 'Infinity']) {
    assert.equal(await problems({}, { GANTRY_TIMEOUT_MS: time }), expected)
    assert.equal(await problems({ 'gantry.config.json': '{}' }, { GANTRY_TIMEOUT_MS: time }), expected)
  }
  assert.match(await problems({ 'gantry.config.json': '{"a":1}' }, { GANTRY_TIMEOUT_MS: 'abc' }), /has 2 problems/)
})

test('GANTRY_ variables of tests, launcher and secret store cause no warning', async () => {
  using folder = folderWith({})
  const environment = { GANTRY_ENGINES: 'all', GANTRY_SOAK_SEED: '1', GANTRY_BUNDLE: 'off', GANTRY_SECRETS_KEY: 'x' }
  assert.deepEqual((await load(folder.path, environment)).warnings, [])
})

test('an unknown GANTRY_ variable is a warning with its name and without its value', async () => {
  using folder = folderWith({})
  const { warnings } = await load(folder.path, { GANTRY_TIMEOUT: 'secret', PATH: '/bin' })
  assert.deepEqual(warnings, ['The variable GANTRY_TIMEOUT is not used. Did you mean GANTRY_TIMEOUT_MS?'])
})

test('JSON and YAML that are not plain data are refused with their line or path', async () => {
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

test('YAML with thousands of errors is refused with the first 20 and a count of the rest', async () => {
  const text = await problems({ 'gantry.config.yaml': `{${'? '.repeat(100_000)}` })
  assert.match(text, /not valid YAML\.\n line 1: Unexpected \? in flow map\n/)
  assert.match(text, /\n and \d+ more$/)
  assert.equal(text.split('\n').length, 22)
})

test('YAML with many keys or aliases does not take quadratic time', async () => {
  const names = Array.from({ length: 20_000 }, (_, index) => `k${index}: 1`)
  assert.match(await problems({ 'gantry.config.yaml': [...names, 'k0: 1'].join('\n') }), /line 20001: Map keys must/)
  const aliases = Array.from({ length: 10_000 }, (_, index) => `- &a${index} x\n- *a${index}`)
  assert.match(
    await problems({ 'gantry.config.yaml': aliases.join('\n') }),
    /line 202: There are more than 100 aliases/,
  )
})

test('a JSON or YAML file over its size limit is refused', async () => {
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

test('a configuration that throws a hostile value is refused as CONFIG_INVALID', async () => {
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

test('an empty configuration file is refused in every format', async () => {
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

test('a module that throws, does not parse or has no default export is refused with its line and cause', async () => {
  assert.match(await problems({ 'gantry.config.mjs': 'export const a = 1' }), /has no default export/)
  assert.match(await problems({ 'gantry.config.mjs': '\n\nthrow new Error("no")' }), /failed at line 3/)
  assert.match(await problems({ 'gantry.config.mjs': '\nexport default {{' }), /failed at line 2/)
  assert.match(await problems({ 'gantry.config.ts': 'export default 5' }), /must be an object/)
  using folder = folderWith({ 'gantry.config.mjs': 'export default () => { throw new TypeError("no") }' })
  await assert.rejects(load(folder.path), (error: Error) => error.cause instanceof TypeError)
})

test('a module anywhere on disk can import the packages of this installation', async () => {
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

test('a module can supply backend objects, and an object that is no backend is refused with its path', async () => {
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

test('backends can be data in every file format, and are mixed with backend objects in a module', async () => {
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

test('an HTTP backend can take its tools from an OpenAPI document', async () => {
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

test('a getter that throws is refused with the file and the key', async () => {
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

test('a tool whose getter throws is refused with its path', async () => {
  const config = `export default { tools: [{ get tool() { throw new Error('no') }, run() {} }] }`
  using folder = folderWith({ 'gantry.config.mjs': config })
  await assert.rejects(checkConfig({ folder: folder.path, environment: {}, signal }), (error) => {
    assert.ok(ToolError.is(error))
    assert.equal(error.code, 'CONFIG_INVALID')
    assert.equal(error.details?.issues?.[0]?.path, '/tools/0')
    return true
  })
})

test('the value of a secret is read from its variable when it is requested', async () => {
  using folder = folderWith({ 'gantry.config.yaml': 'secrets: { TOKEN: { env: MY_TOKEN } }' })
  const environment: NodeJS.ProcessEnv = {}
  const { options } = await load(folder.path, environment)
  environment.MY_TOKEN = 'later'
  const source = options.secrets as { get(name: string): Promise<unknown> }
  assert.equal(await source.get('TOKEN'), 'later')
  assert.equal(await source.get('PATH'), undefined)
})

test('an invalid part of backends, egress, safeguards, mcp, tools or secrets is refused with its path', async () => {
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

test('problems that the executor finds are listed with those of the schema', async () => {
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
    '/backends The backend http:api is registered twice',
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

test('an invalid file of a backend is reported at the key that names it', async () => {
  const cases: [object, RegExp][] = [
    [{ openapi: 'old.json' }, /^\/backends\/0\/openapi names .*Swagger 2\.0/m],
    [{ openapi: 'bad.json' }, /^\/backends\/0\/openapi names .*bad\.json is not valid JSON/m],
    [{ openapi: 'old.json', tools: 'old.json' }, /^\/backends\/0\/openapi replaces tools/m],
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

test('a profile may name every runtime that the file configures, and no other', async () => {
  const profiles = { far: { floor: 'container', runtimes: ['kubernetes', 'qemu', 'firecracker'] } }
  using folder = folderWith({
    'gantry.config.json': JSON.stringify({
      runtimes: { kubernetes: { namespace: 'sandboxes' }, qemu: {}, firecracker: {} },
      profiles,
    }),
  })
  const { runtimes = {} } = (await load(folder.path)).options
  assert.deepEqual('profiles' in runtimes && runtimes.profiles, profiles)
  using bare = folderWith({ 'gantry.config.json': JSON.stringify({ profiles }) })
  await assert.rejects(load(bare.path), /configuration/i)
})

test('TLS files of other hosts and of Proxmox are relative to the file that names them', async () => {
  const key = 'k'.repeat(48)
  const remote = [
    {
      url: 'https://one.example:7421',
      keyId: 'w',
      key,
      tls: { caFile: 'ca.pem', certFile: '/etc/c.pem', keyFile: 'k.pem' },
    },
    { url: 'https://two.example:7421', keyId: 'w', key },
  ]
  const proxmox = {
    url: 'https://pve1.example:8006',
    caFile: 'pve.pem',
    tokenId: 'gantry@pve!sandboxes',
    token: 'the-secret',
    node: 'pve1',
    template: 9_000,
    vmids: { first: 9_100, last: 9_199 },
    network: { bridge: 'vmbr9', from: '10.77.0.16/24' },
    agentKey: key,
  }
  using folder = folderWith({ 'set/gantry.config.json': JSON.stringify({ runtimes: { remote, proxmox } }) })
  const { options } = await load(folder.path, { GANTRY_CONFIG: 'set/gantry.config.json' })
  const at = (name: string): string => join(folder.path, 'set', name)
  const [one, two] = remote
  assert.deepEqual(options.runtimes, {
    remote: [{ ...one, tls: { caFile: at('ca.pem'), certFile: '/etc/c.pem', keyFile: at('k.pem') } }, two],
    proxmox: { ...proxmox, caFile: at('pve.pem') },
  })
  using wrong = folderWith({
    'gantry.config.json': JSON.stringify({ runtimes: { remote: [null], proxmox: { ...proxmox, caFile: 7 } } }),
  })
  await assert.rejects(load(wrong.path), /configuration/i)
})
