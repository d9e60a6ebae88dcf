import assert from 'node:assert/strict'
import { randomBytes } from 'node:crypto'
import { readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { test } from 'node:test'
import type { Identity, JsonObject, Result } from '@gantry/contract'
import { type DefinedTool, defineTool } from '@gantry/core'
import { noBubblewrap } from '../../conformance/src/sandbox-test.ts'
import { eventually } from './broker-site.fixture.ts'
import { createSearch } from './canary-search.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { migratedFolder, startServe } from './serve.fixture.ts'
import { openServiceSite, operator } from './service-site.fixture.ts'
import { node } from './spawn.fixture.ts'

/** The numbers are those of the attack list; docs/security-tests.md has the whole table. */

const canary = `canary-${randomBytes(12).toString('hex')}`
const { find } = createSearch({ canary })

/** An MCP server whose one tool returns its environment, once the file named by its argument does not exist. */
const asking = `
const { existsSync } = require('node:fs')
const say = (message) => console.log(JSON.stringify({ jsonrpc: '2.0', ...message }))
require('node:readline').createInterface({ input: process.stdin }).on('line', async (line) => {
  const { id, method } = JSON.parse(line)
  if (id === undefined) return
  if (method === 'initialize') say({ id, result: { protocolVersion: '2025-11-25', capabilities: { tools: {} }, serverInfo: { name: 's', version: '1' } } })
  else if (method === 'tools/list') say({ id, result: { tools: [{ name: 'env', description: 'Says.', inputSchema: { type: 'object' } }] } })
  else {
    while (existsSync(process.argv[1])) await new Promise((resolve) => setTimeout(resolve, 20))
    say({ id, result: { content: [{ type: 'text', text: JSON.stringify([process.env, process.argv]) }] } })
  }
})`

test('attacks over HTTP on a service with secrets in its environment', async (t) => {
  const folder = await migratedFolder(t)
  const hold = join(folder, 'hold')
  const backend = {
    kind: 'mcp',
    name: 'child',
    command: [node, '-e', asking, hold],
    env: { TOKEN: 'secret:CANARY_TOKEN' },
  }
  const config = {
    backends: [backend],
    builtins: true,
    demo: true,
    secrets: { CANARY_TOKEN: { env: 'CANARY_TOKEN' } },
    service: { logLevel: 'debug' },
  }
  writeFileSync(join(folder, 'gantry.config.json'), JSON.stringify(config))
  const environment = { CANARY_TOKEN: canary, AWS_SECRET_ACCESS_KEY: `${canary}-aws`, GANTRY_SECRETS: canary }
  const service = startServe(t, folder, { environment })
  await service.ready
  const output = async (tool: string, args: JsonObject): Promise<string> => {
    const { value } = await service.post('/v1/calls', { tool, args, waitMs: 20_000 })
    return JSON.stringify(value)
  }

  await t.test(
    '75: a sandbox finds no secret of the service in its own environment or in that of its parents',
    {
      skip: noBubblewrap ?? false,
    },
    async () => {
      const script = `env; cat /proc/self/environ /proc/1/environ /proc/$PPID/environ 2>&1 | tr '\\0' '\\n'; ls /proc; cat /proc/*/cmdline`
      const said = await output('shell:run', { script })
      assert.match(said, /PATH=/)
      assert.deepEqual(find(said), [])
      // Control: the secret is in the service's own environment.
      assert.ok(find(readFileSync(`/proc/${service.child.pid}/environ`)).length > 0)
    },
  )

  await t.test(
    '75: an MCP server gets the environment its configuration grants and nothing else of the service’s',
    async () => {
      const said = await output('child:env', {})
      assert.match(said, /PATH/)
      assert.doesNotMatch(said, /AWS_SECRET|GANTRY_SECRETS|CANARY_TOKEN/)
      // The granted secret is redacted in the tool's output.
      assert.match(said, /TOKEN[^,]*\[redacted\]/)
      assert.deepEqual(find(said), [])
    },
  )

  await t.test('76: no process that the service starts has a secret in its arguments', async () => {
    writeFileSync(hold, '')
    const waiting = output('child:env', {})
    const children = await eventually(async () => {
      const found = descendants(service.child.pid ?? 0)
      return found.length > 0 ? found : undefined
    }, 'a child')
    const lines = [service.child.pid ?? 0, ...children].map((pid) => readFileSync(`/proc/${pid}/cmdline`))
    assert.ok(lines.some((line) => line.includes('tools/list')))
    assert.deepEqual(lines.flatMap(find), [])
    // Control: the server that needs the secret has it in its environment, which only its user can read.
    assert.ok(children.some((pid) => find(readFileSync(`/proc/${pid}/environ`)).length > 0))
    rmSync(hold)
    await waiting
  })

  await t.test('117, 122: hostile tool names, paths and headers break no log line and add no metric', async () => {
    const from = service.printed.err.length
    for (let n = 0; n < 20; n++) {
      const tool = `x${n}:y\n{"level":"error"}\r\u2028\u2029\u001b[31m\u0085\u009b`
      assert.equal((await service.post('/v1/calls', { tool })).status, 400)
      assert.ok((await service.post('/v1/calls', { tool: `flood${n}:tool` })).status === 404)
    }
    const odd = await service.ask(`/v1/${encodeURIComponent('\n\u001b[31m\u2028')}`, {
      headers: { 'user-agent': 'x"\\n{"level":"fatal"}', 'x-request-id': '%0a%0d' },
    })
    assert.equal(odd.status, 404)
    await eventually(async () => (/flood19/.test(service.printed.err) ? true : undefined), 'the last line')
    const lines = service.printed.err.slice(from).split('\n').filter(Boolean)
    assert.ok(lines.length >= 40)
    for (const line of lines) {
      assert.match(JSON.parse(line).level, /^(?:debug|info|warn|error)$/)
      assert.doesNotMatch(line, /[\p{Cc}\u2028\u2029]/u)
    }
    const metrics = await (await service.ask('/metrics')).text()
    assert.doesNotMatch(metrics, /flood|x1:|\[31m|u2028/)
  })

  await t.test(
    '124: a filter, cursor or id is bound as a value and never becomes part of an SQL statement',
    async () => {
      await output('demo:add', { a: 1, b: 2 })
      const all = (await service.get('/v1/calls?limit=200')).value.items.length
      const words = [
        `' or '1'='1`,
        `x'; drop table gantry.calls; --`,
        `%' or true --`,
        `\\'; select pg_sleep(10); --`,
        `{"$gt":""}`,
        `created_at desc; --`,
        `x\u0000y`,
        `$1`,
        `') union select secret from api_keys --`,
      ].map(encodeURIComponent)
      for (const word of words) {
        for (const path of [
          `/v1/calls?tool=${word}`,
          `/v1/calls?state=${word}`,
          `/v1/calls?cursor=${word}`,
          `/v1/calls?limit=${word}`,
        ]) {
          const { status, value } = await service.get(path)
          assert.ok(status === 400 || (status === 200 && value.items.length === 0), `${path} ${status}`)
          assert.notEqual(value.error?.code, 'INTERNAL')
        }
        for (const path of [
          `/v1/calls/${word}`,
          `/v1/dead-letters/${word}`,
          `/v1/artifacts/${word}`,
          `/v1/tools/${word}`,
        ]) {
          const { status, value } = await service.get(path)
          assert.ok(status === 404 || status === 400, `${path} ${status}`)
          assert.notEqual(value.error?.code, 'INTERNAL')
        }
      }
      assert.equal((await service.get('/v1/calls?limit=200')).value.items.length, all)
    },
  )

  await t.test('77, 80: after all these attacks no log line, metric or list holds the secret', async () => {
    const places = [service.printed.out, service.printed.err, await (await service.ask('/metrics')).text()]
    for (const path of [
      '/v1/calls?limit=200',
      '/v1/dead-letters',
      '/v1/tools',
      '/v1/catalog',
      '/v1/workers',
      '/v1/circuits',
    ]) {
      places.push(await (await service.ask(path)).text())
    }
    assert.deepEqual(places.flatMap(find), [])
  })
})

/** The pids of all descendants of a process. */
function descendants(pid: number): number[] {
  const children = readdirSync(`/proc/${pid}/task`).flatMap((task) => {
    try {
      return readFileSync(`/proc/${pid}/task/${task}/children`, 'utf8').split(' ').filter(Boolean).map(Number)
    } catch {
      return []
    }
  })
  return children.flatMap((child) => [child, ...descendants(child)])
}

const open = { type: 'object' } as const

function noting(
  notes: Identity[],
  rest: { readonly permissions?: readonly string[]; readonly description?: string; readonly inputSchema?: object },
): DefinedTool {
  return defineTool({
    namespace: 't',
    name: 'note',
    version: '1.0.0',
    description: 'Notes.',
    inputSchema: open,
    effect: 'repeatable',
    ...rest,
    run: (_args, { identity }) => notes.push(identity),
  })
}

test('attacks on calls in the queue', async (t) => {
  const notes: Identity[] = []
  const site = await openServiceSite(t, pgliteDatabase, { tools: [noting(notes, {})] }, { versionWaitMs: 1 })
  const bob: Identity = { principal: 'bob', tenant: 'acme', permissions: [] }
  const later = async (): Promise<string> =>
    (await site.service.submit({ kind: 'call', tool: 't:note', args: {}, delayMs: 3_600_000 }, bob)).callId
  const wake = (callId: string): Promise<unknown> =>
    site.database.query(`update gantry.queue set run_at = now() where call_id = $1`, [callId])
  const outcomeOf = (callId: string): Promise<Result> =>
    eventually(async () => (await site.service.call(callId, bob)).result as Result | undefined, 'an outcome')

  await t.test('119: a queued call runs neither under a changed definition nor after a policy denies it', async () => {
    const [changed, narrowed, fine] = [await later(), await later(), await later()]
    await site.configure({ tools: [noting(notes, { inputSchema: { type: 'object', maxProperties: 9 } })] })
    await wake(changed)
    assert.equal((await outcomeOf(changed)).error?.code, 'CATALOG_STALE')
    await site.configure({
      tools: [noting(notes, {})],
      policy: { rules: [{ deny: 't:note', reason: 'Closed.' }], default: 'allow' },
    })
    await wake(narrowed)
    assert.equal((await outcomeOf(narrowed)).error?.code, 'DENIED')
    assert.deepEqual(notes, [])
    await site.configure({ tools: [noting(notes, {})] })
    await wake(fine)
    assert.equal((await outcomeOf(fine)).status, 'ok')
  })

  await t.test('119: a schema digest other than the current one is rejected as stale, for operators too', async () => {
    for (const schemaDigest of ['0'.repeat(64), 'sha256:0', '*']) {
      const asked = site.service.submit({ kind: 'call', tool: 't:note', args: {}, schemaDigest }, operator)
      await assert.rejects(asked, { code: 'CATALOG_STALE' }, schemaDigest)
    }
  })

  await t.test(
    '125: a redriven dead letter runs with the permissions of its original caller, not of the operator who redrives it',
    async () => {
      const callId = await later()
      await site.database.query(`update gantry.queue set lost = 3, deaths = 3, run_at = now() where call_id = $1`, [
        callId,
      ])
      assert.equal((await outcomeOf(callId)).status, 'failed')
      const mallory: Identity = { principal: 'mallory', tenant: 'blue', permissions: ['*'] }
      await assert.rejects(site.service.redrive(callId, mallory), { code: 'NOT_FOUND' })
      await site.configure({ tools: [noting(notes, { permissions: ['t:write'] })] })
      const before = notes.length
      const again = await site.service.redrive(callId, operator)
      // The operator holds every permission; bob, the original caller, does not.
      assert.equal((await outcomeOf(again.callId)).error?.code, 'DENIED')
      assert.equal(notes.length, before)
    },
  )
})
