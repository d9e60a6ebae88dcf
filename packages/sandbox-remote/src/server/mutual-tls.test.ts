import assert from 'node:assert/strict'
import { readFileSync } from 'node:fs'
import { type TestContext, test } from 'node:test'
import { type Certificate, makeAuthority } from '../../../../scripts/engines/certificates.ts'
import { createRemoteRuntime } from '../client/remote.ts'
import { startHost } from '../test-host.fixture.ts'

const pemOf = ({ certFile, keyFile }: Certificate) => ({
  cert: readFileSync(certFile, 'utf8'),
  key: readFileSync(keyFile, 'utf8'),
})

async function tlsHost(t: TestContext) {
  const [authority, other] = [makeAuthority(), makeAuthority('another')]
  const host = await startHost({ tls: { ...pemOf(authority.issue()), ca: authority.ca } }, [])
  t.after(async () => {
    await host.close()
    authority.remove()
    other.remove()
  })
  /** Why the host cannot be used; a host without runtimes that answers says so. */
  const reasonOf = async (tls: { readonly ca: string; readonly cert?: string; readonly key?: string }) => {
    const runtime = createRemoteRuntime({ ...host.remote, tls })
    const probe = await runtime.probe(AbortSignal.timeout(30_000))
    await runtime.close()
    return probe.available ? 'available' : probe.reason
  }
  return { authority, other, reasonOf }
}

test('a host with its own authorities accepts only clients that have a certificate of theirs and the key', async (t) => {
  const { authority, other, reasonOf } = await tlsHost(t)
  const { ca } = authority
  assert.equal(await reasonOf({ ca, ...pemOf(authority.issue()) }), 'No host offers a runtime that works.')
  assert.match(await reasonOf({ ca }), /cannot be reached/)
  assert.match(await reasonOf({ ca, ...pemOf(other.issue()) }), /cannot be reached/)
})

test('a client refuses a host whose certificate is of another authority', async (t) => {
  const { authority, other, reasonOf } = await tlsHost(t)
  assert.match(await reasonOf({ ca: other.ca, ...pemOf(authority.issue()) }), /cannot be reached/)
})
