import assert from 'node:assert/strict'
import { test } from 'node:test'
import type { EgressResponse } from '@gantry/core/internal/egress/egress'
import { guessesOf } from '../../../core/src/json/guesses.fixture.ts'
import { extentOf, readPieces } from './response.ts'

const secret = 'ghp_Zk3Qw9LmN7rTv'

/** What is given of a body that comes byte by byte, and how many of them were asked for. */
async function readOf(text: string, limit: number, secrets = [secret]) {
  let asked = 0
  const body = async function* (): AsyncGenerator<Uint8Array, void> {
    for (const byte of Buffer.from(text)) {
      asked += 1
      yield Buffer.from([byte])
    }
  }
  const answer = {
    status: 200,
    headers: new Headers(),
    contentType: undefined,
    changed: false,
    url: 'https://a.example/',
  }
  const whole = { bytes: async () => Buffer.from(text), text: async () => text, cancel: () => undefined }
  const response: EgressResponse = { ...answer, ...whole, body: body() }
  const pieces: string[] = []
  for await (const piece of readPieces(response, extentOf(limit, secrets))) pieces.push(Buffer.from(piece).toString())
  return { asked, pieces }
}

test('the length of a truncated body and the bytes read do not reveal a correct guess of a secret’s prefix', async () => {
  for (const { right, wrong } of guessesOf(secret)) {
    for (const behind of ['', ' and on', ' and on'.repeat(200), '\n']) {
      for (const limit of [right.length, right.length + 2, 30]) {
        const [one, other] = [await readOf(`| ${right}${behind}`, limit), await readOf(`| ${wrong}${behind}`, limit)]
        assert.equal(one.asked, other.asked, right)
        assert.deepEqual(
          one.pieces.map((piece) => piece.length),
          other.pieces.map((piece) => piece.length),
        )
        assert.equal(one.pieces.join(''), `| ${right}${behind}`.slice(0, limit))
      }
    }
  }
})

test('readPieces reads one byte past the limit without secrets, and a bounded number of bytes with secrets', async () => {
  const text = 'x'.repeat(10_000)
  assert.equal((await readOf(text, 50, [])).asked, 51)
  const { asked, pieces } = await readOf(text, 50)
  assert.ok(asked > 50 + secret.length && asked < 400, `${asked}`)
  assert.equal(pieces.join(''), 'x'.repeat(50))
})
