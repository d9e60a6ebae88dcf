import assert from 'node:assert/strict'
import { test } from 'node:test'
import { guessesOf } from '../../json/guesses.fixture.ts'
import { createExcerpt } from './media.ts'

const secret = 'ghp_Zk3Qw9LmN7rTv'
const excerpt = createExcerpt([secret])

test('an excerpt has the same length for right and wrong guesses of a secret', () => {
  for (const { right, wrong } of guessesOf(secret)) {
    for (const before of [0, 90, 95, 390, 395]) {
      const [one, other] = [right, wrong].map((guess) =>
        excerpt(`${'x'.repeat(before)} ${guess}${' y'.repeat(4_000)}`, 100),
      )
      assert.equal(one?.length, 100)
      assert.equal(other?.length, 100)
    }
    assert.equal(excerpt(`| ${right}`, 100), `| ${right}`)
    assert.equal(excerpt(`| ${right}`, 100, false), excerpt(`| ${wrong}`, 100, false))
  }
})

test('an excerpt holds no part of a secret, nor of one that crosses the end of a truncated text', () => {
  for (let cut = 1; cut <= secret.length; cut++) {
    const text = `${`${secret} `.repeat(60)}${secret.slice(0, cut)}`
    assert.ok(!excerpt(text, 1_000, false).includes('g'))
    assert.ok(!excerpt(`${text}${secret.slice(cut)}`, 700).includes('g'))
  }
})
