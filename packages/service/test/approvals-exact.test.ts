import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { chmodSync, readdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { test } from 'node:test'
import type { ApprovalView, ArtifactRef, ChainStep, Json, JsonObject } from '@gantry/contract'
import { builtinTools } from '@gantry/tools'
import fc from 'fast-check'
import { approvalText } from '../../gantry/src/cli/commands/approvals.ts'
import { hostileCall, notingTools } from '../../tools/src/hostile-arguments.fixture.ts'
import { stub } from '../src/stub.fixture.ts'
import { ada, asked, bob, questionOf, stateOf } from './approvals.fixture.ts'
import { eventually } from './broker-site.fixture.ts'
import { pgliteDatabase } from './databases.fixture.ts'
import { openServiceSite, type ServiceSite } from './service-site.fixture.ts'

const never = new AbortController().signal
const everythingAsks = { rules: [{ allow: '*' }, { ask: ['*'], reason: 'everything asks' }] }

/** Parses the arguments from the command's output; string literals separated only by whitespace are one string. */
function readBack(approval: ApprovalView): Json {
  const shown = approvalText(approval)
  const from = shown.indexOf('\n{') + 1
  const json = shown.slice(from, shown.indexOf('\n}\n', from) + 2 || undefined)
  assert.match(json, /^[\n\x20-\x7e\u00a1-\uffff]*$/, 'nothing in it moves a cursor')
  assert.doesNotMatch(json, /[\u200b\u202e\u2066\ufeff\u00a0\u00ad\u2800]/, 'and all of it shows')
  const pieces = [...json.matchAll(/"(?:[^"\\]|\\.)*"|\s+|[^"\s]+/g)].map(([piece]) => piece)
  const joined: string[] = []
  for (const piece of pieces) {
    const [before, between] = joined.slice(-2)
    const goesOn = piece.startsWith('"') && before?.startsWith('"') === true && /^\s+$/.test(between ?? '')
    if (goesOn) joined.splice(-2, 2, `${before.slice(0, -1)}${piece.slice(1)}`)
    else joined.push(piece)
  }
  return JSON.parse(joined.join(''))
}

async function approved(site: ServiceSite, callId: string, questionId: string): Promise<ApprovalView> {
  const { approvals } = site.service
  const view = await approvals.get(questionId, bob)
  await approvals.decide(questionId, { decision: 'approve' }, bob)
  await site.service.wait(callId, ada, 20_000, never)
  return view
}

test('the arguments an approver sees decode, byte for byte, to the arguments the backend receives', async (t) => {
  const received: unknown[] = []
  const tools = notingTools((_tool, args) => received.push(args))
  const site = await openServiceSite(t, pgliteDatabase, { tools, policy: everythingAsks })
  await fc.assert(
    fc.asyncProperty(hostileCall, async ({ tool, args }) => {
      received.length = 0
      const { callId } = await site.service.submit({ kind: 'call', tool, args }, ada).catch(() => ({ callId: '' }))
      fc.pre(callId !== '')
      await stateOf(site, callId, 'asked')
      const view = await approved(site, callId, (await questionOf(site, callId)).id)
      assert.equal(view.hidden, undefined)
      assert.equal(JSON.stringify(received[0]), JSON.stringify(view.args))
      assert.equal(JSON.stringify(readBack(view)), JSON.stringify(received[0]))
      assert.equal(Buffer.byteLength(JSON.stringify(view.args)), view.argsBytes)
    }),
    { numRuns: 25 },
  )

  await t.test('the approval of a chain step shows its arguments with references resolved', async () => {
    const script = 'echo see://a:rm -rf /@ \u202e'
    const args = { script, files: { 'auth.py': 'import os', 'a.txt': 'https://x:1@evil.example\\@good.example/' } }
    const steps: ChainStep[] = [{ id: 'one', tool: 'shell:run', args: { ...args, script: '{{input}}' } }]
    received.length = 0
    const chain = await site.service.submit({ kind: 'chain', args: { steps, input: script } }, ada)
    await stateOf(site, chain.callId, 'asked')
    const view = await approved(site, chain.callId, (await questionOf(site, chain.callId)).id)
    assert.deepEqual([view.args, received], [args, [args]])
  })
})

test('a call that a program makes asks for approval with the exact arguments that then run in the sandbox', async (t) => {
  const tools = builtinTools()
  const policy = { rules: [{ allow: '*' }, { ask: ['shell:run', 'code:run'], reason: 'it runs code' }] }
  const site = await openServiceSite(t, pgliteDatabase, { tools, policy, runtimes: { pool: false } })
  const hiding = 'see://a:payload@'
  const shell = { script: `cat auth.py; echo '${hiding}'`, files: { 'auth.py': 'print("pwned")\n' } }
  const code = `return (await tools.shell.run(${JSON.stringify(shell)})).stdout`
  const { callId } = await site.service.submit({ kind: 'call', tool: 'code:program', args: { code } }, ada)
  await stateOf(site, callId, 'asked')
  const question = await questionOf(site, callId)
  assert.equal(question.tool.startsWith('shell:run'), true)
  const view = await approved(site, callId, question.id)
  assert.deepEqual(view.args, shell)
  const { result } = await site.service.call(callId, ada)
  assert.equal(result?.output, `print("pwned")\n${hiding}\n`)
  const rows = await site.database.query<{ tool: string; details: string }>(
    `select tool, details from audit where phase = 'intent' and call_id like $1 order by seq`,
    [`${callId}%`],
  )
  const intents = rows.map(({ tool, details }) => [tool.split(':').slice(0, 2).join(':'), JSON.parse(details).args])
  assert.deepEqual(intents.at(-1), ['shell:run', shell], 'the audit log has it too')
  assert.deepEqual(intents[0]?.[0], 'code:program')
  const ends = await site.database.query<{ details: string }>(
    `select details from audit where phase = 'end' and call_id like $1 order by seq`,
    [`${callId}%`],
  )
  const isolations = ends.flatMap(({ details }) => JSON.parse(details).runtime?.isolation ?? [])
  assert.deepEqual(isolations.toSorted(), ['namespaces', 'wasm'])
})

test('an approval shows a URL with the host that is dialled, escapes invisible characters, and marks truncation', async (t) => {
  const tools = notingTools(() => undefined)
  const site = await openServiceSite(t, pgliteDatabase, { tools, policy: everythingAsks })
  const show = async (tool: string, args: JsonObject): Promise<ApprovalView> => {
    const { callId, question } = await asked(site, tool, args)
    const view = await site.service.approvals.get(question.id, bob)
    await site.service.cancel(callId, ada)
    return view
  }
  const url = 'https://x:1@evil.example\\@good.example/'
  const fetched = await show('http:fetch', { url, headers: { authorization: 'Bearer secret:name' } })
  assert.deepEqual(fetched.args, { url, headers: { authorization: 'Bearer secret:name' } })
  const dialled = { host: 'evil.example', url: 'https://x:1@evil.example/@good.example/', userinfo: 'x:1' }
  assert.deepEqual(fetched.notes, [{ kind: 'url', path: '/url', ...dialled }])
  assert.match(approvalText(fetched), /\nurl: \/url leads to evil\.example, with the user information "x:1", as https:/)
  const broken = await show('http:fetch', { url: 'https://good.example\n.evil.example/' })
  assert.equal(broken.notes?.[0]?.kind === 'url' && broken.notes[0].host, 'good.example.evil.example')
  const bidi = await show('shell:run', { argv: ['echo', 'a\u202eb\u202ec\u200b\u00a0'] })
  assert.deepEqual(bidi.notes, [
    { kind: 'invisible', path: '/argv/1', characters: ['U+202E ×2', 'U+200B ×1', 'U+00A0 ×1'] },
  ])
  assert.match(approvalText(bidi), /"a\\u202eb\\u202ec\\u200b\\u00a0"/)
  assert.match(approvalText(bidi), /\ninvisible: \/argv\/1 holds U\+202E ×2, U\+200B ×1, U\+00A0 ×1\n/)

  const script = `${'#'.repeat(400_000)}\necho hidden at the end`
  const { callId, question } = await asked(site, 'shell:run', { script })
  const cut = await site.service.approvals.get(question.id, bob)
  assert.deepEqual(cut.truncated, ['/script'])
  assert.match(JSON.stringify(cut.args), /… \[truncated: 400023 bytes in all, sha256:[0-9a-f]{64}\]"\}$/)
  assert.match(approvalText(cut), /\ntruncated: gantry approvals show ap_\S+ --full shows all/)
  assert.deepEqual((await site.service.approvals.get(question.id, bob, { full: true })).args, { script })
  await site.service.cancel(callId, ada)
})

test('an approval shows a file argument with its digest and size, and only that content runs', async (t) => {
  const policy = { rules: [{ allow: '*' }, { ask: ['shell:run'], reason: 'it runs code' }] }
  const site = await openServiceSite(t, pgliteDatabase, { tools: builtinTools(), policy, runtimes: { pool: false } })
  const put = async (content: string): Promise<ArtifactRef> => {
    const { outcome } = await site.call('files:put', { name: 'job.sh', content, mimeType: 'text/x-sh' }, ada)
    return stub<ArtifactRef>(outcome.output)
  }
  const [harmless, evil] = [await put('echo harmless'), await put('echo evil')]
  const args = { argv: ['sh', 'job.sh'], files: { 'job.sh': { artifact: harmless.id } } }
  const ask = () => asked(site, 'shell:run', args)
  const ended = async (callId: string) => {
    await site.service.wait(callId, ada, 20_000, never)
    return (await site.service.call(callId, ada)).result
  }
  const replace = (digest: string) =>
    site.database.query('update artifacts set digest = $2 where id = $1', [harmless.id, digest])

  const first = await ask()
  const view = await site.service.approvals.get(first.question.id, bob)
  const { name, mimeType, bytes, digest } = harmless
  assert.equal(digest, `sha256:${hash('sha256', 'echo harmless')}`)
  assert.deepEqual([name, mimeType, bytes], ['job.sh', 'text/x-sh', 13])
  assert.deepEqual(view.files, [{ path: '/files/job.sh/artifact', id: harmless.id, name, mimeType, bytes, digest }])
  const line = `\nfile: /files/job.sh/artifact is "job.sh", text/x-sh, 13 bytes, ${digest}\n`
  assert.ok(approvalText(view).includes(line), approvalText(view))
  const { content } = await site.service.artifact(harmless.id, undefined, bob, never)
  assert.equal(await text(content), 'echo harmless', 'the approver can read it')

  await approved(site, first.callId, first.question.id)
  assert.partialDeepStrictEqual(await ended(first.callId), { output: { stdout: 'harmless\n' } })

  const second = await ask()
  await replace(evil.digest)
  await site.service.approvals.decide(second.question.id, { decision: 'approve' }, bob)
  const again = await eventually(async () => {
    const question = await questionOf(site, second.callId)
    return question.id === second.question.id ? undefined : question
  }, 'another question')
  const replaced = await site.service.approvals.get(again.id, bob)
  assert.deepEqual(replaced.files?.[0]?.digest, evil.digest)
  await site.service.approvals.decide(again.id, { decision: 'deny' }, bob)
  assert.equal((await ended(second.callId))?.status, 'denied')

  await replace(harmless.digest)
  const third = await ask()
  const [folder, file] = [join(site.data, 'artifacts'), digest.slice('sha256:'.length)]
  const found = readdirSync(folder, { recursive: true, encoding: 'utf8' }).find((path) => path.endsWith(file))
  assert.ok(found !== undefined)
  chmodSync(join(folder, found), 0o600)
  writeFileSync(join(folder, found), 'echo replaced')
  await site.service.approvals.decide(third.question.id, { decision: 'approve' }, bob)
  const spoilt = await ended(third.callId)
  assert.deepEqual([spoilt?.status, spoilt?.error?.code], ['failed', 'STORE_UNAVAILABLE'])
})
