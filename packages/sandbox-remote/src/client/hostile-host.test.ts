import assert from 'node:assert/strict'
import { once } from 'node:events'
import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import type { SandboxJob, SandboxSpec } from '@gantry/core/internal/runtimes/runtime'
import { jsonBytes, protocolVersion } from '../protocol/documents.ts'
import { createFrameWriter, type Frame, frameTypes } from '../protocol/frames.ts'
import { readClaim, signResponse } from '../protocol/signature.ts'
import { testKey } from '../test-host.fixture.ts'
import { createRemoteRuntime } from './remote.ts'

const limits = {
  wallMs: 5_000,
  cpuMs: 5_000,
  memoryBytes: 67_108_864,
  pids: 16,
  diskBytes: 1_048_576,
  stdoutBytes: 1_000,
  stderrBytes: 1_000,
}
const spec: SandboxSpec = { language: 'python', limits, network: 'none' }
const job: SandboxJob = { program: { kind: 'code', language: 'python', code: 'pass' } }
const patience = (): AbortSignal => AbortSignal.timeout(30_000)
const state = {
  protocol: protocolVersion,
  instance: 'I'.repeat(16),
  version: '0',
  open: 0,
  capacity: 1,
  draining: false,
  keepMs: 1_000,
}

interface Hostile {
  /** What it says of a sandbox that it opened. */
  readonly opened?: object
  /** Frames of a run. */
  readonly frames?: readonly Frame[]
  /** Writes something of its own in place of frames. */
  write?(response: ServerResponse): void
  readonly key?: string
}

/** A host that has the key and does not keep to the protocol. */
async function hostileRemote(
  t: TestContext,
  { opened = { kind: 'process', isolation: 'namespaces' }, frames = [], write, key = testKey.key }: Hostile,
) {
  const server = createServer((request, response) => {
    const { signature = '' } = readClaim(request.headers.authorization) ?? {}
    const signing = { ...testKey, key }
    request.resume()
    if (request.url?.includes('/runs/') === true) {
      response.writeHead(200, { 'gantry-signature': signResponse(signing, signature, 200, undefined) })
      const frame = createFrameWriter(signing, signature)
      if (write === undefined) for (const each of frames) response.write(frame(each))
      else write(response)
      response.end()
      return
    }
    const isOpen = request.method === 'PUT'
    const body = jsonBytes(isOpen ? opened : state)
    response.writeHead(200, { 'gantry-signature': signResponse(signing, signature, 200, body) }).end(body)
  }).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const runtime = createRemoteRuntime({ url, keyId: testKey.id, key: testKey.key })
  t.after(async () => {
    await runtime.close()
    server.closeAllConnections()
    server.close()
  })
  return runtime
}

const json = (type: Frame['type'], value: object): Frame => ({ type, payload: jsonBytes(value) })
const outcome = {
  exit: { code: 0 },
  stdout: { total: 0, truncated: false },
  stderr: { total: 0, truncated: false },
  skipped: [],
  usage: { wallMs: 1 },
  enforced: {},
  alive: false,
}
const collecting: SandboxJob = { ...job, collect: { files: 1, bytes: 10 } }
const asking: SandboxJob = { ...job, gateway: { ask: () => assert.fail('a wrong request reached the gateway') } }

const attacks: readonly (readonly [string, readonly Frame[], SandboxJob])[] = [
  ['more output than the limit', [{ type: frameTypes.stdout, payload: new Uint8Array(1_001) }], job],
  ['a file that was not asked for', [{ type: frameTypes.file, payload: Buffer.from('x') }], job],
  ['a file outside of the workspace', [{ type: frameTypes.file, payload: Buffer.from('../x') }], collecting],
  [
    'more bytes of files than asked for',
    [
      { type: frameTypes.file, payload: Buffer.from('x') },
      { type: frameTypes.bytes, payload: new Uint8Array(11) },
    ],
    collecting,
  ],
  ['a message that is not JSON', [{ type: frameTypes.message, payload: Buffer.from('{') }], job],
  ['a message of another form', [json(frameTypes.message, { kind: 'progress' })], job],
  ['gateway requests of a program without a gateway', [json(frameTypes.ask, { questions: [], working: false })], job],
  [
    'gateway requests out of order',
    [json(frameTypes.ask, { questions: [{ number: 2, kind: 'call', text: '{}' }], working: false })],
    asking,
  ],
  ['an outcome without an exit', [json(frameTypes.outcome, { ...outcome, exit: {} })], job],
  ['an outcome without its streams', [json(frameTypes.outcome, { ...outcome, stdout: 1 })], job],
  ['an error of an unknown code', [json(frameTypes.error, { error: { code: '__proto__', message: 'x' } })], job],
]

for (const [title, frames, given] of attacks) {
  test(`a host that sends ${title} ends the run and nothing else`, async (t) => {
    const runtime = await hostileRemote(t, { frames: [...frames, json(frameTypes.outcome, outcome)] })
    const sandbox = await runtime.open(spec, patience())
    await assert.rejects(sandbox.run(given, patience()), (error) => {
      assert.ok(ToolError.is(error))
      assert.deepEqual([error.code, error.effect], ['BACKEND_FAILED', 'possible'], error.message)
      return true
    })
    await sandbox.ended
  })
}

test('a host without the key gets no program', async (t) => {
  const runtime = await hostileRemote(t, { key: 'w'.repeat(48) })
  await assert.rejects(runtime.open(spec, patience()), /sent an answer that the key did not sign/)
})

test('a sandbox that is weaker than required is not used', async (t) => {
  const runtime = await hostileRemote(t, { opened: { kind: 'wasm', isolation: 'wasm' } })
  await assert.rejects(runtime.open({ ...spec, floor: 'namespaces' }, patience()), /at least namespaces is required/)
  const none = await hostileRemote(t, { opened: { kind: 'unsafe_host', isolation: 'none' } })
  await assert.rejects(none.open(spec, patience()), /at least wasm is required/)
})

test('frames that are altered on the way are no outcome: the run ends as unknown', async (t) => {
  const runtime = await hostileRemote(t, { write: (response) => void response.write(Buffer.alloc(200)) })
  const sandbox = await runtime.open(spec, patience())
  await assert.rejects(sandbox.run(job, patience()), (error) => ToolError.is(error) && error.code === 'OUTCOME_UNKNOWN')
})
