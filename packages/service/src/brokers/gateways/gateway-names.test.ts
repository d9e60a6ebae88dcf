import assert from 'node:assert/strict'
import { test } from 'node:test'
import { setImmediate as turn } from 'node:timers/promises'
import { type Identity, ToolError } from '@gantry/contract'
import { type CatalogEntry, type DefinedTool, defineTool, http, memoryCatalog } from '@gantry/core'
import { createExecutor } from '@gantry/tools'
import fc from 'fast-check'
import { createGatewayView, gatewayNames } from './gateway-names.ts'

const gateway: Identity = { principal: 'gateway', tenant: 'main', permissions: [] }
const signal = new AbortController().signal

function toolOf(key: string, version = '1.0.0', permissions: readonly string[] = []): DefinedTool {
  const [namespace = '', name = ''] = key.split(':')
  const texts = { namespace, name, version, description: `The tool ${key}.` }
  return defineTool({ ...texts, permissions, effect: 'read', inputSchema: { type: 'object' }, run: () => ({}) })
}

function entriesOf(...keys: readonly string[]): readonly CatalogEntry[] {
  const catalog = memoryCatalog()
  return keys.map((key) => catalog.register(toolOf(key).tool))
}

const failureOf = (work: () => unknown): ToolError => {
  try {
    work()
  } catch (error) {
    if (ToolError.is(error)) return error
  }
  throw new Error('nothing was refused')
}

test('a tool is found by its id, by its name in tool formats, and by its plain name', () => {
  const names = gatewayNames(entriesOf('math:add', 'web:fetch'))
  assert.equal(names.find('math:add'), 'math:add')
  assert.equal(names.find('math:add:1.0.0'), 'math:add:1.0.0')
  assert.equal(names.find('math__add'), 'math:add')
  assert.equal(names.find('add'), 'math:add')
  assert.equal(names.nameFor('math:add'), 'add')
})

test('a plain name that two tools share is refused with both ids, and each is published under its full name', () => {
  const names = gatewayNames(entriesOf('math:add', 'lists:add', 'web:fetch'))
  const { code, message, details } = failureOf(() => names.find('add'))
  assert.deepEqual([code, details?.nearest], ['TOOL_NOT_FOUND', ['math:add', 'lists:add']])
  assert.match(message, /2 tools are called "add"; use one of the ids math:add, lists:add\./)
  assert.deepEqual(['math:add', 'lists:add', 'web:fetch'].map(names.nameFor), ['math__add', 'lists__add', 'fetch'])
})

test('a plain name does not shadow the full name of another tool', () => {
  const alone = gatewayNames(entriesOf('evil:github__create_issue'))
  assert.equal(alone.find('github__create_issue'), 'evil:github__create_issue')
  for (const keys of [
    ['evil:github__create_issue', 'github:create_issue'],
    ['github:create_issue', 'evil:github__create_issue'],
  ]) {
    const names = gatewayNames(entriesOf(...keys))
    assert.equal(names.find('github__create_issue'), 'github:create_issue')
    assert.equal(names.nameFor('evil:github__create_issue'), 'evil__github__create_issue')
  }
})

test('a name that models do not accept is published as one that they do, and found again', () => {
  const long = `files:${'x'.repeat(100)}`
  const names = gatewayNames(entriesOf('api:get.user', long))
  for (const key of ['api:get.user', long]) {
    assert.match(names.nameFor(key), /^[A-Za-z_][A-Za-z0-9_-]{0,63}$/)
    assert.equal(names.find(names.nameFor(key)), key)
  }
})

test('every published name resolves to its own tool, whatever the tools are called', () => {
  const part = fc.stringMatching(/^[ab_](?:\.?[ab_-]){0,3}$/)
  const keys = fc.uniqueArray(
    fc.tuple(part, part).map(([namespace, name]) => `${namespace}:${name}`),
    { minLength: 1, maxLength: 12 },
  )
  fc.assert(
    fc.property(keys, (all) => {
      const names = gatewayNames(entriesOf(...all))
      const published = all.map(names.nameFor)
      assert.equal(new Set(published).size, all.length)
      assert.deepEqual(
        published.map((name) => names.find(name)),
        all,
      )
    }),
    { numRuns: 300 },
  )
})

test('an unknown name is refused with similar names, and printed without its control characters', () => {
  const names = gatewayNames(entriesOf('math:multiply', 'web:fetch'))
  const near = failureOf(() => names.find('multipl'))
  assert.deepEqual([near.code, near.details?.nearest], ['TOOL_NOT_FOUND', ['multiply']])
  const odd = failureOf(() => names.find(`x\n\u001b[31m\u2028"${'y'.repeat(10_000)}`))
  assert.match(odd.message, /^[\x20-\x7e]{0,200}$/)
  for (const name of ['', '__proto__', 'constructor', 'toString']) {
    assert.equal(failureOf(() => names.find(name)).code, 'TOOL_NOT_FOUND')
  }
})

test('a tool hidden from gateways has no name, and takes none from other tools', async (t) => {
  const executor = createExecutor({ tools: [toolOf('math:add'), toolOf('secret:add', '1.0.0', ['secrets'])] })
  t.after(() => executor.close({ graceMs: 1 }))
  const names = await createGatewayView(gateway).names(executor)
  assert.equal(names.find('add'), 'math:add')
  assert.throws(() => names.find('secret__add'), { code: 'TOOL_NOT_FOUND' })
  const insider = createGatewayView({ ...gateway, permissions: ['secrets'] })
  assert.equal((await insider.names(executor)).find('secret__add'), 'secret:add')
})

test('names follow the catalog, and are built once for each state of it', async (t) => {
  const executor = createExecutor({ tools: [toolOf('math:add')] })
  t.after(() => executor.close({ graceMs: 1 }))
  const view = createGatewayView(gateway)
  const before = await view.names(executor)
  assert.equal(await view.names(executor), before)
  executor.register(toolOf('lists:add'))
  const after = await view.names(executor)
  assert.throws(() => after.find('add'), { code: 'TOOL_NOT_FOUND' })
  assert.equal(after.nameFor('math:add'), 'math__add')
})

test('a tool of a backend that was not discovered yet is found by its plain name', async (t) => {
  const { run: _run, ...rest } = { ...toolOf('shop:order').tool, run: undefined }
  const backend = http({
    name: 'shop',
    baseUrl: 'http://127.0.0.1:1',
    private: true,
    tools: [{ ...rest, backends: [{ kind: 'http', name: 'shop', method: 'GET', path: '/' }] }],
  })
  const executor = createExecutor({ backends: [backend] })
  t.after(() => executor.close({ graceMs: 1 }))
  const view = createGatewayView(gateway)
  assert.throws(() => gatewayNames([]).find('order'), { code: 'TOOL_NOT_FOUND' })
  assert.equal(await view.find(executor, 'order', signal), 'shop:order')
  await assert.rejects(view.find(executor, 'ordr', signal), { code: 'TOOL_NOT_FOUND' })
})

test('building the names of 20,000 tools does not block the event loop', async (t) => {
  const executor = createExecutor({ tools: Array.from({ length: 20_000 }, (_, index) => toolOf(`many:tool_${index}`)) })
  t.after(() => executor.close({ graceMs: 1 }))
  let turns = 0
  let done = false
  const others = (async () => {
    for (; !done; turns += 1) await turn()
  })()
  const names = await createGatewayView(gateway).names(executor)
  done = true
  await others
  assert.equal(names.find('tool_19999'), 'many:tool_19999')
  assert.ok(turns >= 200, `${turns} turns`)
})

test('a tool that is hidden from the sender is refused like an unknown name, in every form of the name', async (t) => {
  const tools = [toolOf('math:add'), toolOf('math:multiply'), toolOf('theirs:addition'), toolOf('theirs:multiply')]
  const [executor, without] = [createExecutor({ tools }), createExecutor({ tools: tools.slice(0, 2) })]
  t.after(() => Promise.all([executor.close({ graceMs: 1 }), without.close({ graceMs: 1 })]))
  const view = createGatewayView(gateway)
  const bound = { ...gateway, tools: ['math:*'] }
  const refusal = async (...asked: Parameters<typeof view.find>): Promise<unknown> => {
    const error: unknown = await view.find(...asked).catch((thrown: unknown) => thrown)
    assert.ok(ToolError.is(error))
    return { code: error.code, message: error.message, details: error.details }
  }
  for (const name of ['addition', 'theirs__addition', 'theirs__multiply', 'nothing']) {
    const absent = await refusal(without, name, signal)
    assert.deepEqual(await refusal(executor, name, signal, bound), absent, name)
    assert.equal((absent as ToolError).code, 'TOOL_NOT_FOUND')
  }
  assert.equal(await view.find(executor, 'multiply', signal, bound), 'math:multiply')
  await assert.rejects(view.find(executor, 'multiply', signal, gateway), /2 tools are called/)
  assert.equal(await view.find(executor, 'addition', signal, gateway), 'theirs:addition')
})
