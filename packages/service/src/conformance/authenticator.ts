import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { type Authenticator, type Presented, unauthenticated } from '../http/authentication/authenticator.ts'

/** An authenticator with credentials of its kind. */
export interface AuthenticatorFixture {
  readonly authenticator: Authenticator
  /** A new request with a valid credential, and the identity of that credential. */
  good(): Promise<{ readonly presented: Presented; readonly identity: Identity }>
  /** Requests with an invalid credential of its kind, derived from a valid one; the key names the defect. */
  wrong(good: Presented): Promise<{ readonly [what: string]: Presented }>
  /** Makes its dependencies fail from now on; absent when it has none. */
  readonly cut?: () => void
}

const { signal } = new AbortController()

/** The contract of Authenticator. `make` gives each test its own fixture. */
export function testAuthenticator(name: string, make: (t: TestContext) => Promise<AuthenticatorFixture>): void {
  test(`${name}: a valid credential authenticates its identity, every time`, async (t) => {
    const { authenticator, good } = await make(t)
    for (let time = 0; time < 3; time += 1) {
      const { presented, identity } = await good()
      assert.deepEqual((await authenticator.authenticate(presented, signal))?.identity, identity)
    }
  })

  test(`${name}: an authenticated identity stays valid as long as its stream is open`, async (t) => {
    const { authenticator, good } = await make(t)
    const { presented, identity } = await good()
    await authenticator.authenticate(presented, signal)
    for (let time = 0; time < 3; time += 1) {
      const known = await authenticator.authenticate({ ...presented, again: true }, signal)
      assert.deepEqual(known?.identity, identity)
    }
  })

  test(`${name}: a request without a credential of its kind is left to other authenticators`, async (t) => {
    const { authenticator } = await make(t)
    for (const authorization of [undefined, '', 'Basic Zm9vOmJhcg==', 'Bearer', 'Bearer  ', 'Bearer other']) {
      const headers = { host: 'localhost', ...(authorization === undefined ? {} : { authorization }) }
      const presented = { method: 'GET', path: '/v1/calls', headers }
      assert.equal(await authenticator.authenticate(presented, signal), undefined, authorization)
    }
  })

  test(`${name}: every invalid credential is refused with the same message`, async (t) => {
    const { authenticator, good, wrong } = await make(t)
    for (const [what, presented] of Object.entries(await wrong((await good()).presented))) {
      const refused = await authenticator.authenticate(presented, signal).then(
        (known) => assert.equal(known, undefined, what),
        (error: unknown) => error,
      )
      if (refused === undefined) continue
      assert.ok(ToolError.is(refused), what)
      assert.deepEqual([refused.code, refused.message], ['UNAUTHENTICATED', unauthenticated().message], what)
      assert.equal(refused.details, undefined, what)
    }
    const { presented, identity } = await good()
    const known = await authenticator.authenticate(presented, signal)
    assert.deepEqual(known?.identity, identity, 'a valid credential is accepted after all of them')
  })

  test(`${name}: a credential that cannot be checked because a dependency is unavailable is refused`, async (t) => {
    const { authenticator, good, cut } = await make(t)
    if (cut === undefined) return
    const { presented } = await good()
    cut()
    await assert.rejects(authenticator.authenticate(presented, signal), { code: 'STORE_UNAVAILABLE' })
  })
}
