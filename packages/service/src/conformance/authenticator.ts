import assert from 'node:assert/strict'
import { type TestContext, test } from 'node:test'
import { type Identity, ToolError } from '@gantry/contract'
import { type Authenticator, type Presented, unauthenticated } from '../http/authentication/authenticator.ts'

/** An authenticator with credentials of its kind. */
export interface AuthenticatorFixture {
  readonly authenticator: Authenticator
  /** A request that it lets in, made anew each time, and whose it is. */
  good(): Promise<{ readonly presented: Presented; readonly identity: Identity }>
  /** Requests with a credential of its kind that is wrong, by what is wrong; made from a good one. */
  wrong(good: Presented): Promise<{ readonly [what: string]: Presented }>
  /** Makes everything that it asks fail from now on; absent for one that asks nobody. */
  readonly cut?: () => void
}

const { signal } = new AbortController()

/** What every authenticator must do; each test has a fixture of its own. */
export function testAuthenticator(name: string, make: (t: TestContext) => Promise<AuthenticatorFixture>): void {
  test(`${name}: whoever shows a good credential is who it says, every time`, async (t) => {
    const { authenticator, good } = await make(t)
    for (let time = 0; time < 3; time += 1) {
      const { presented, identity } = await good()
      assert.deepEqual((await authenticator.authenticate(presented, signal))?.identity, identity)
    }
  })

  test(`${name}: whoever was let in is known again as long as his stream is open`, async (t) => {
    const { authenticator, good } = await make(t)
    const { presented, identity } = await good()
    await authenticator.authenticate(presented, signal)
    for (let time = 0; time < 3; time += 1) {
      const known = await authenticator.authenticate({ ...presented, again: true }, signal)
      assert.deepEqual(known?.identity, identity)
    }
  })

  test(`${name}: a request that shows nothing of its kind is left to others`, async (t) => {
    const { authenticator } = await make(t)
    for (const authorization of [undefined, '', 'Basic Zm9vOmJhcg==', 'Bearer', 'Bearer  ', 'Bearer other']) {
      const headers = { host: 'localhost', ...(authorization === undefined ? {} : { authorization }) }
      const presented = { method: 'GET', path: '/v1/calls', headers }
      assert.equal(await authenticator.authenticate(presented, signal), undefined, authorization)
    }
  })

  test(`${name}: whatever is wrong, nobody is let in and all are refused in the same words`, async (t) => {
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
    assert.deepEqual(known?.identity, identity, 'a good one is let in after all of them')
  })

  test(`${name}: what cannot be found out is not let in`, async (t) => {
    const { authenticator, good, cut } = await make(t)
    if (cut === undefined) return
    const { presented } = await good()
    cut()
    await assert.rejects(authenticator.authenticate(presented, signal), { code: 'STORE_UNAVAILABLE' })
  })
}
