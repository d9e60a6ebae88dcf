import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { Json, Tool } from '@gantry/contract'
import type { Backend, BackendCall, BackendContext, BackendHost } from './backends/backend.ts'
import { createExecutor } from './executor.ts'
import { defineTool } from './tools/tool.ts'

const open = { type: 'object' } as const

const hello = defineTool({
  ...{ namespace: 'my', name: 'hello', description: 'Greets.', inputSchema: open, effect: 'read' },
  run: () => 'hello',
})

/** A backend that logs its lifecycle. */
function someBackend(name = 'remote', call: (context: BackendContext, call: BackendCall) => unknown = () => 'there') {
  let host: BackendHost | undefined
  const log: string[] = []
  const tool = (toolName: string): Tool => ({
    ...{ namespace: name, name: toolName, version: '1.0.0', description: 'Searches ledgers.', inputSchema: open },
    ...{ effect: 'read', backends: [{ kind: 'fake', name }] },
  })
  const backend: Backend = {
    kind: 'fake',
    name,
    attach(given) {
      host = given
    },
    async discover() {
      log.push('discover')
      await host?.publish([tool('look')])
    },
    call: (given, context) => call(context, given),
    async close() {
      log.push('close')
    },
  }
  return { backend, log, publish: (...names: string[]) => host?.publish(names.map(tool)) }
}

test('a tool registered at run time is checked, found, listed and announced like an initial one', async () => {
  const gantry = createExecutor()
  const changes: unknown[] = []
  gantry.on('catalog:changed', ({ kind, key }) => changes.push([kind, key]))
  const before = gantry.hashFor()
  const registered = gantry.tools.register(hello)
  assert.equal(registered.id, 'my:hello:1.0.0')
  assert.equal((await gantry.run('my:hello')).output, 'hello')
  assert.equal((await gantry.search('greets')).items[0]?.id, 'my:hello')
  assert.deepEqual(
    gantry.tools({ namespace: 'my' }).items.map(({ key }) => key),
    ['my:hello'],
  )
  assert.notEqual(gantry.hashFor(), before)
  const other = defineTool({ ...hello.tool, description: 'Another one.', run: () => 'other' })
  assert.throws(() => gantry.tools.register(other), { code: 'TOOL_INVALID' })
  const broken = defineTool({ ...hello.tool, name: 'bro ken', run: () => 'other' })
  assert.throws(() => gantry.tools.register(broken), { code: 'TOOL_INVALID' })
  assert.notEqual(gantry.tools.update(other).digest, registered.digest)
  assert.equal((await gantry.run('my:hello')).output, 'other')
  assert.equal(gantry.tools.unregister('my:hello'), true)
  assert.equal((await gantry.run('my:hello')).error?.code, 'TOOL_NOT_FOUND')
  assert.deepEqual(changes, [
    ['registered', 'my:hello'],
    ['updated', 'my:hello'],
    ['unregistered', 'my:hello'],
  ])
  await gantry.close()
  assert.throws(() => gantry.tools.register(hello), { code: 'BACKEND_UNAVAILABLE' })
})

test('tools.register, tools.update and backends.register refuse invalid values by name', async () => {
  const gantry = createExecutor()
  for (const wrong of [undefined, null, 'my:hello', [], [hello], {}, hello.tool, { tool: null }]) {
    for (const method of ['register', 'update'] as const) {
      assert.throws(() => gantry.tools[method](wrong as never), {
        code: 'TOOL_INVALID',
        message: `Invalid tool of tools.${method}: /tool must be what defineTool returns.`,
        details: { issues: [{ path: '/tool', message: 'must be what defineTool returns' }] },
      })
    }
  }
  for (const wrong of [undefined, null, [], {}, { kind: 'fake', name: 'x' }]) {
    assert.throws(() => gantry.backends.register(wrong as never), {
      code: 'CONFIG_INVALID',
      message: 'Invalid backend of backends.register: /backend must be a backend with kind, name and call.',
    })
  }
  await gantry.close()
})

test('a backend registered at run time publishes its tools and is closed with the executor', async () => {
  const gantry = createExecutor()
  const { backend, log } = someBackend()
  assert.deepEqual(gantry.backends.register(backend), {
    ...{ key: 'fake:remote', kind: 'fake', name: 'remote', enabled: true },
  })
  assert.deepEqual(await gantry.ready(), [])
  assert.equal((await gantry.search('ledgers')).items[0]?.id, 'remote:look')
  assert.equal((await gantry.run('remote:look')).output, 'there')
  assert.throws(() => gantry.backends.register(someBackend().backend), { code: 'CONFIG_INVALID' })
  assert.throws(() => gantry.backends.register({ kind: 'fake', name: 'x' } as never), { code: 'CONFIG_INVALID' })
  const refusing = { ...someBackend('y').backend, attach: () => assert.fail('It does not attach.') }
  assert.throws(() => gantry.backends.register(refusing), /does not attach/)
  assert.ok(!gantry.backends.list().some(({ name }) => name === 'y'))
  await gantry.close()
  assert.deepEqual(log, ['discover', 'close'])
  assert.throws(() => gantry.backends.register(someBackend('z').backend), { code: 'BACKEND_UNAVAILABLE' })
})

test('a tool of a registered backend cannot replace an existing tool', async () => {
  const mine = defineTool({ ...hello.tool, namespace: 'remote', name: 'look', run: () => 'mine' })
  const gantry = createExecutor({ tools: [mine] })
  gantry.backends.register(someBackend().backend)
  await gantry.ready()
  assert.equal((await gantry.run('remote:look')).output, 'mine')
  await gantry.close()
})

test('a removed backend gets no new calls and is closed after its running calls end', async () => {
  const begun = Promise.withResolvers<void>()
  const free = Promise.withResolvers<Json>()
  const { backend, log, publish } = someBackend('remote', async () => {
    begun.resolve()
    return free.promise
  })
  const bound = defineTool({
    ...{ namespace: 'my', name: 'bound', description: 'Bound to it.', inputSchema: open, effect: 'read' },
    backends: [{ kind: 'fake', name: 'remote' }],
  })
  const gantry = createExecutor({ tools: [bound], backends: [backend] })
  await gantry.ready()
  const running = gantry.run('remote:look')
  await begun.promise
  const removed = gantry.backends.remove('remote')
  assert.equal((await gantry.run('remote:look')).error?.code, 'TOOL_NOT_FOUND')
  assert.equal((await gantry.run('my:bound')).error?.code, 'NO_BACKEND')
  assert.deepEqual((await gantry.search('ledgers')).items, [])
  assert.deepEqual(log, ['discover'], 'it is not closed under the call that runs')
  free.resolve('done')
  assert.equal((await running).output, 'done')
  await removed
  assert.deepEqual(log, ['discover', 'close'])
  await publish('late')
  assert.equal((await gantry.run('remote:late')).error?.code, 'TOOL_NOT_FOUND')
  await assert.rejects(gantry.backends.remove('remote'), { code: 'NO_BACKEND' })
  await assert.rejects(gantry.backends.remove('local'), { code: 'CONFIG_INVALID' })
  // The name can be registered again.
  gantry.backends.register(someBackend('remote', () => 'anew').backend)
  await gantry.ready()
  assert.equal((await gantry.run('remote:look')).output, 'anew')
  await gantry.close()
})

test('a call that outlasts the grace period of the removal of its backend is cancelled', async () => {
  const begun = Promise.withResolvers<void>()
  const { backend, log } = someBackend('remote', ({ signal }) => {
    begun.resolve()
    return new Promise((_, reject) => signal.addEventListener('abort', () => reject(signal.reason)))
  })
  const gantry = createExecutor({ backends: [backend] })
  await gantry.ready()
  const running = gantry.run('remote:look')
  await begun.promise
  await gantry.backends.remove('fake:remote', { graceMs: 1 })
  assert.deepEqual(
    [(await running).status, (await running).error?.message],
    ['cancelled', 'The backend remote was removed.'],
  )
  assert.deepEqual(log, ['discover', 'close'])
  await gantry.close()
})
