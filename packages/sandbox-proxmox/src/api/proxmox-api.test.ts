import assert from 'node:assert/strict'
import { once } from 'node:events'
import { readFileSync } from 'node:fs'
import type { IncomingMessage, ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { type TestContext, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { makeAuthority } from '../../../../scripts/engines/certificates.ts'
import { problemOf, problemOfAnswer } from './api-error.ts'
import { createProxmoxApi, type ProxmoxApi } from './proxmox-api.ts'

const signal = AbortSignal.timeout(60_000)
const secret = 'the-secret-of-the-token'
const upid = 'UPID:pve1:00001234:00005678:6AFF5F38:vzclone:100:gantry@pve!t:'

type Handler = (request: IncomingMessage, response: ServerResponse) => void

/** An API that answers as the handler does. */
async function apiWith(t: TestContext, handler: Handler): Promise<ProxmoxApi> {
  const authority = makeAuthority()
  const { certFile, keyFile } = authority.issue()
  const server = createServer({ cert: readFileSync(certFile), key: readFileSync(keyFile) }, handler)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const api = createProxmoxApi({
    url: `https://127.0.0.1:${(server.address() as AddressInfo).port}`,
    ca: authority.ca,
    tokenId: 'gantry@pve!t',
    token: async () => secret,
    node: 'pve1',
  })
  t.after(() => {
    api.close()
    server.closeAllConnections()
    server.close()
    authority.remove()
  })
  return api
}

const data = (response: ServerResponse, value: unknown): void => void response.end(JSON.stringify({ data: value }))

async function failure(work: Promise<unknown>): Promise<ToolError> {
  const error = await work.then(
    () => assert.fail('it succeeded'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  assert.doesNotMatch(`${error.message}${JSON.stringify(error.details)}`, new RegExp(secret))
  return error
}

test('words of Proxmox name the problem', () => {
  const words = [
    [500, 'CT is locked (disk)', 'locked'],
    [500, "can't lock file '/run/lock/lxc/pve-config-105.lock' - got timeout", 'locked'],
    [500, "CT 105 already exists on node 'pve1'", 'exists'],
    [500, "Configuration file 'nodes/pve1/lxc/105.conf' does not exist", 'absent'],
    [403, 'Permission check failed (/vms/100, VM.Clone)', 'denied'],
    [401, 'invalid token value!', 'unauthenticated'],
    [500, 'no space left', 'other'],
  ] as const
  for (const [status, text, problem] of words) assert.equal(problemOfAnswer(status, text), problem, text)
})

test('a task is looked at until it has stopped, also while the API is gone for a moment', async (t) => {
  let looks = 0
  const api = await apiWith(t, ({ url }, response) => {
    if (url?.endsWith('/clone') === true) return data(response, upid)
    looks += 1
    if (looks < 4) return void response.destroy()
    data(response, looks < 6 ? { status: 'running' } : { status: 'stopped', exitstatus: 'WARNINGS: 2' })
  })
  await api.perform('POST', '/nodes/pve1/lxc/100/clone', 'clone', signal, { newid: 101 })
  assert.equal(looks, 6)
})

test('a request that changes something is not sent again when its connection ends', async (t) => {
  let count = 0
  const api = await apiWith(t, (_, response) => {
    count += 1
    response.destroy()
  })
  assert.equal(problemOf(await failure(api.ask('POST', '/x', signal))), 'unreachable')
  assert.equal(count, 1)
})

test('answers that are too long, not JSON, of another form or name a hostile task are refused', async (t) => {
  const bodies: { readonly [path: string]: string } = {
    '/long': JSON.stringify({ data: 'x'.repeat(9_000_000) }),
    '/text': '<html>',
    '/form': '[]',
    '/task': JSON.stringify({ data: 'UPID:pve1:../../access:0:' }),
    '/deep': `{"data":${'['.repeat(100)}${']'.repeat(100)}}`,
  }
  const api = await apiWith(t, ({ url = '' }, response) => {
    response.on('error', () => undefined)
    response.end(bodies[url.replace('/api2/json', '')])
  })
  for (const path of ['/long', '/text', '/form', '/deep']) {
    assert.equal((await failure(api.ask('GET', path, signal))).code, 'RUNTIME_UNAVAILABLE', path)
  }
  assert.match((await failure(api.perform('POST', '/task', 'do it', signal))).message, /named no task/)
})

test('words of the API cross as one short line', async (t) => {
  const api = await apiWith(t, (_, response) => {
    response.statusCode = 500
    response.end(JSON.stringify({ data: null, message: `one\u001b[31m\ntwo ${'x'.repeat(5_000)}` }))
  })
  const { message } = await failure(api.ask('GET', '/x', signal))
  assert.doesNotMatch(message, /[\p{Cc}]/u)
  assert.ok(message.length < 1_000)
})

test('a wait for a task ends with the reason of its signal', async (t) => {
  const api = await apiWith(t, ({ method }, response) =>
    data(response, method === 'POST' ? upid : { status: 'running' }),
  )
  const enough = new AbortController()
  const reason = new Error('enough')
  const waiting = api.perform('POST', '/x', 'do it', enough.signal)
  enough.abort(reason)
  await assert.rejects(waiting, (error) => error === reason)
})
