import assert from 'node:assert/strict'
import { join } from 'node:path'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { openSecretStore } from '@gantry/core'
import { createKeyFile } from '@gantry/core/internal/secrets/store-key'
import { builtinTools } from '@gantry/tools'
import { type ConfigSummary, checkConfig } from './check-config.ts'
import { folderWith } from './config.fixture.ts'

const signal = new AbortController().signal

function check(folder: string, environment: NodeJS.ProcessEnv = {}): Promise<ConfigSummary> {
  return checkConfig({ folder, environment, signal })
}

/** What the check refuses, a line for each issue. */
async function refusal(folder: string, environment?: NodeJS.ProcessEnv): Promise<string> {
  try {
    await check(folder, environment)
  } catch (error) {
    assert.ok(ToolError.is(error) && error.code === 'CONFIG_INVALID', String(error))
    return (error.details?.issues ?? []).map(({ path, message }) => `${path} ${message}\n`).join('')
  }
  return assert.fail('it was accepted')
}

const tool = { namespace: 'my', name: 'thing', description: 'A thing.', inputSchema: { type: 'object' } }
const api = { kind: 'http', name: 'api', baseUrl: 'https://api.example.com' }

function configOf(config: object): { 'gantry.config.json': string } {
  return { 'gantry.config.json': JSON.stringify(config) }
}

const builtins = builtinTools().length

test('a tool that names an unknown backend is refused with the nearest known name', async () => {
  const bound = (name: string, binding: object) => ({ ...tool, name, backends: [binding] })
  const tools = [
    bound('a', { kind: 'http', name: 'apo', path: '/' }),
    bound('b', { kind: 'mcp' }),
    bound('c', { kind: 'local' }),
    bound('d', { kind: 'http', path: '/' }),
    bound('e', { kind: 'http', name: 'api', path: '/' }),
  ]
  using folder = folderWith(configOf({ backends: [api], tools }))
  assert.equal(
    await refusal(folder.path),
    [
      '/tools/0/backends/0 names the unknown backend http:apo; did you mean http:api?\n',
      '/tools/1/backends/0 names the unknown backend mcp\n',
      '/tools/2/backends/0 is local, but the tool has no function\n',
    ].join(''),
  )
  using two = folderWith(configOf({ backends: [api, { ...api, name: 'two' }], tools: [tools[3], tools[4]] }))
  assert.equal(await refusal(two.path), '/tools/0/backends/0 must name one of http:api, http:two\n')
})

test('an invalid backend binding of a tool is refused with the path of its key', async () => {
  const backends = [{ kind: 'http', name: 'api', paht: '/x' }]
  using folder = folderWith(configOf({ backends: [api], tools: [{ ...tool, backends }] }))
  const text = await refusal(folder.path)
  assert.match(text, /^\/tools\/0\/backends\/0\/paht .*path/m)
})

test('checkConfig validates and counts the tools of an HTTP backend', async () => {
  const discovered = (name: string, path: object) => ({
    ...tool,
    namespace: 'api',
    name,
    version: '1.0.0',
    effect: 'read',
    backends: [{ kind: 'http', ...path }],
  })
  const good = [discovered('a', { path: '/a' }), discovered('b', { path: '/b' })]
  using folder = folderWith(configOf({ backends: [{ ...api, tools: good }], tools: [] }))
  assert.equal((await check(folder.path)).tools, 2 + builtins)
  const wrong = [
    good[0],
    discovered('c', { paht: '/c' }),
    { ...discovered('d', { path: '/' }), inputSchema: { type: 'sting' } },
  ]
  using other = folderWith(configOf({ backends: [api, { ...api, name: 'more', tools: wrong }] }))
  const text = await refusal(other.path)
  assert.match(text, /^\/backends\/1\/tools holds more:c, whose \/backends\/0\/paht /m)
  assert.match(text, /^\/backends\/1\/tools The tool d is refused: /m)
  assert.doesNotMatch(text, /more:a/)
})

test('a tool with a run function needs no backend', async () => {
  const text = `import { defineTool } from '@gantry/core'
    export default { tools: [defineTool({ ...${JSON.stringify(tool)}, run: () => 1 })] }`
  using folder = folderWith({ 'gantry.config.mjs': text })
  assert.equal((await check(folder.path)).tools, 1 + builtins)
})

test('checkConfig refuses a secret store that does not exist or that its key does not open', async () => {
  using folder = folderWith(configOf({ secretStore: { keyFile: 'key' } }))
  const at = (name: string) => join(folder.path, name)
  await createKeyFile(at('key'))
  assert.match(await refusal(folder.path), /^\/secretStore .*secrets/)
  await openSecretStore({ file: at('.gantry/secrets'), key: { file: at('key') }, create: true })
  assert.equal((await check(folder.path)).secrets, 'yes')
  using other = folderWith(configOf({ secretStore: { file: at('.gantry/secrets') } }))
  assert.match(await refusal(other.path, { GANTRY_SECRETS_KEY: 'ab'.repeat(32) }), /^\/secretStore .*does not open/)
})

test('checkConfig finds every folder, list and lock file that the first sandbox would refuse, all at once', async () => {
  const runtimes = {
    readOnlyFolders: ['/tmp/inputs', '/nowhere/at/all', '/usr/../srv'],
    python: { packages: { requirements: 'requirements.txt' } },
    node: { packages: { manifest: 'package.json' }, lock: 'node.lock' },
  }
  using folder = folderWith({
    ...configOf({ runtimes }),
    'requirements.txt': 'six\n--index-url http://127.0.0.1/\n',
    'package.json': '{"dependencies": {"left-pad": "1.3.0"}}',
    'node.lock': '{"packages": {"": {"dependencies": {"left-pad": "1.2.0"}}}}',
  })
  const found = await refusal(folder.path)
  const places = [
    /^\/runtimes\/readOnlyFolders\/0 \/tmp\/inputs .* is in \/tmp, which a sandbox has of its own/m,
    /^\/runtimes\/readOnlyFolders\/1 \/nowhere\/at\/all does not exist/m,
    /^\/runtimes\/readOnlyFolders\/2 /m,
    /^\/runtimes\/python\/packages\/requirements has a wrong entry at line 2: .* is an option of pip/m,
    /^\/runtimes\/node\/lock .* is the lock of another list than runtimes\.node\.packages/m,
  ]
  for (const place of places) assert.match(found, place)
  assert.equal(found.trim().split('\n').length, places.length, found)
})

test('checkConfig warns of packages that are not built, with the command that builds them', async () => {
  using folder = folderWith(configOf({ runtimes: { python: { packages: ['six'] } } }))
  const { warnings, packages } = await check(folder.path)
  assert.match(
    warnings.join(),
    /^The packages of runtimes\.python\.packages are not built.*`gantry runtime build packages`/,
  )
  assert.deepEqual(
    packages?.map(({ kind, digest }) => [kind, digest]),
    [['python', undefined]],
  )
  using wrong = folderWith(configOf({ runtimes: { python: { packages: ['six', '-e .'] }, node: { packages: [] } } }))
  const found = await refusal(wrong.path)
  assert.match(found, /^\/runtimes\/python\/packages\/1 .* is an option of pip/m)
  assert.match(found, /^\/runtimes\/node\/packages must be a list of packages/m)
})
