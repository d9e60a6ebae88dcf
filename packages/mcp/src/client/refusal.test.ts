import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guessesOf } from '../../../core/src/json/guesses.fixture.ts'
import { refusalOf } from './remote-link.ts'

const secret = 'ghp_Zk3Qw9LmN7rTv'
const mostBytes = 65_536

/** What is shown of a refusal with this body. */
async function shownOf(body: string): Promise<string> {
  return (await refusalOf(new Response(body, { status: 400 }), [secret], [])).text()
}

test('a truncated refusal shows no part of a secret, and its length is the same for right and wrong guesses', async () => {
  for (const { right, wrong } of guessesOf(secret)) {
    const before = 'x'.repeat(mostBytes - right.length)
    assert.ok(!(await shownOf(`${before}${secret} end`)).includes('g'))
    const [one, other] = [await shownOf(`${before}${right} y`), await shownOf(`${before}${wrong} y`)]
    assert.equal(one.length, other.length)
    assert.ok(one.length > 60_000)
    assert.equal(await shownOf(`no ${right}`), `no ${right}`)
  }
  assert.equal(await shownOf(`no ${secret}.`), 'no [redacted].')
})
