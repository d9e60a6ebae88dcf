import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { JsonObject, JsonSchema } from '@gantry/contract'
import { createExecutor } from '@gantry/tools'
import { builtinTools } from '@gantry/tools/internal/builtin'
import fc from 'fast-check'
import { hostileCall, notingTools } from '../../../tools/src/hostile-arguments.fixture.ts'
import { memoryAudit } from '../audits/memory.ts'
import { createRedactionMark } from '../json/redact.ts'
import type { ApprovalRequest } from '../policies/policy.ts'
import { runIt, tool } from './pipeline.fixture.ts'
import { shownArguments } from './record.ts'

const mark = createRedactionMark('k')
const marked = /^\[redacted \d+ bytes hmac-sha256:[0-9a-f]{32}\]$/
const shownBy = (inputSchema: unknown, args: JsonObject, values: string[] = []) =>
  shownArguments({ inputSchema: inputSchema as JsonSchema }, args, values, mark)

test('an approval request of a built-in tool shows the arguments that its backend receives', async () => {
  const seen: ApprovalRequest[] = []
  const received: [string, unknown][] = []
  const gantry = createExecutor({
    tools: notingTools((id, args) => received.push([id, args])),
    policy: { rules: [{ allow: '*' }, { ask: '*', reason: 'everything asks' }] },
    approver: {
      async approve(request) {
        seen.push(request)
        return { approved: true, by: 'bob' }
      },
    },
  })
  await fc.assert(
    fc.asyncProperty(hostileCall, async ({ tool, args }) => {
      seen.length = 0
      received.length = 0
      const { status } = await gantry.run(tool, args)
      fc.pre(status === 'ok')
      const [request] = seen
      assert.deepEqual(request?.hidden, [])
      assert.deepEqual(received, [[tool, request?.shown]])
      assert.equal(JSON.stringify(received[0]?.[1]), JSON.stringify(request?.shown))
    }),
    { numRuns: 400 },
  )
  await gantry.close()
})

test('no built-in tool declares a member that an approval request hides', () => {
  const everything = (schema: unknown): string[] =>
    typeof schema !== 'object' || schema === null
      ? []
      : Object.entries(schema).flatMap(([key, value]) => [key, ...everything(value)])
  for (const {
    tool: { inputSchema, namespace, name },
  } of builtinTools()) {
    const keys = Object.fromEntries(everything(inputSchema).map((key) => [key, 'x']))
    assert.deepEqual(shownBy(inputSchema, keys).hidden, [], `${namespace}:${name}`)
  }
})

test('a member is hidden by name only if the schema of the tool declares it, at any depth', () => {
  const account = { type: 'object', properties: { user: {}, password: {} } }
  const schema = {
    $defs: { account },
    properties: { token: {}, list: { items: { $ref: '#/$defs/account' } }, files: { additionalProperties: {} } },
    anyOf: [{ properties: { either: { properties: { apiKey: {} } } } }],
    additionalProperties: true,
  }
  const args = {
    token: 't',
    password: 'code',
    list: [{ user: 'u', password: 'hunter2', secret: 'code' }],
    files: { 'auth.py': 'code', password: { token: 'code' } },
    either: { apiKey: ['k'], auth: 'code' },
  }
  const { args: shown, hidden } = shownBy(schema, args)
  assert.deepEqual(hidden.toSorted(), ['/either/apiKey', '/list/0/password', '/token'])
  const text = JSON.stringify(shown)
  assert.equal(text.match(/code/g)?.length, 5, text)
  assert.doesNotMatch(text, /hunter2|"t"|"k"/)
  assert.match((shown as { token: string }).token, marked)
})

test('a self-referencing schema terminates, and a schema that is not an object declares no members', () => {
  const circular = { $ref: '#', properties: { next: { $ref: '#' }, pin: {} } }
  assert.deepEqual(shownBy(circular, { next: { next: { pin: 1 } } }).hidden, ['/next/next/pin'])
  for (const schema of [true, { properties: [] }, { $ref: 'https://elsewhere/#/x', properties: { pwd: false } }]) {
    assert.equal(typeof shownBy(schema, { token: 'x' }).args, 'object')
  }
})

test('known secrets are hidden everywhere, keys included, and their paths are listed', () => {
  const { args, hidden } = shownBy({}, { code: 'use ghpZ9xk3 now', ghpZ9xk3: [1, 'ghpZ9xk3'] }, ['ghpZ9xk3'])
  assert.doesNotMatch(JSON.stringify(args), /ghpZ9xk3/)
  assert.equal(hidden.length, 3)
  assert.match((args as { code: string }).code, /^use \[redacted 8 bytes hmac-sha256:[0-9a-f]{32}\] now$/)
})

test('a connection secret of a backend is hidden from approvers and still reaches the call', async () => {
  const seen: ApprovalRequest[] = []
  const got: unknown[] = []
  const backend = {
    ...{ kind: 'held', name: 'held' },
    attach: (host: { conceal(value: string): void }) => host.conceal('ghpZ9xk3'),
    call: ({ args }: { args: unknown }) => {
      got.push(args)
      return 1
    },
  }
  const asking = tool(() => 1, { approval: 'always' })
  const defined = { ...asking, run: undefined, tool: { ...asking.tool, backends: [{ kind: 'held' }] } }
  const audit = memoryAudit()
  const approve = async (request: ApprovalRequest) => {
    seen.push(request)
    return { approved: true, by: 'bob' }
  }
  const { status } = await runIt(defined, { text: 'ghpZ9xk3' }, { backends: [backend], audit, approver: { approve } })
  assert.equal(status, 'ok')
  assert.deepEqual(got, [{ text: 'ghpZ9xk3' }])
  assert.match(String(seen[0]?.shown.text), marked)
  assert.deepEqual(seen[0]?.hidden, ['/text'])
  assert.doesNotMatch(JSON.stringify(audit.records()), /ghpZ9xk3/)
})
