import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { guessesOf } from '../../../core/src/json/guesses.fixture.ts'
import { createBrokeredSecret, removeFromBody } from './secrets.ts'
import { withoutSecrets } from './websocket.ts'
import { frame } from './websocket-frames.fixture.ts'

const secret = 'ghp_Zk3Qw9LmN7rTv'
const one = createBrokeredSecret({ variable: 'A', value: () => secret, hosts: ['https://a.example'] })
const two = createBrokeredSecret({ variable: 'B', value: () => 'another-Secret', hosts: ['https://a.example'] })

type Work = typeof removeFromBody

/** What comes out, piece by piece; `undefined` at the end when it was cut. */
async function passed(pieces: readonly (string | Uint8Array)[], work: Work): Promise<(string | undefined)[]> {
  const found: (string | undefined)[] = []
  const source = async function* (): AsyncGenerator<Uint8Array, void> {
    for (const piece of pieces) yield Buffer.from(typeof piece === 'string' ? Buffer.from(piece, 'latin1') : piece)
  }
  try {
    for await (const piece of work(source(), [one, two])) found.push(Buffer.from(piece).toString('latin1'))
  } catch {
    found.push(undefined)
  }
  return found
}

const lengths = (texts: readonly (string | undefined)[]): (number | undefined)[] => texts.map((text) => text?.length)

test('chunk boundaries of a body are the same for right and wrong guesses of a secret', async () => {
  for (const { right, wrong } of guessesOf(secret)) {
    for (const around of ['', '\n', 'x'.repeat(400), 'word '.repeat(300)]) {
      const read = (guess: string) =>
        passed([`${around}|zzz`, `${around}|${guess}`, '|yyy', guess, around], removeFromBody)
      assert.deepEqual(lengths(await read(right)), lengths(await read(wrong)), right)
    }
  }
})

test('chunk boundaries of WebSocket messages are the same for right and wrong guesses, in one frame or several', async () => {
  for (const { right, wrong } of guessesOf(secret)) {
    for (const around of ['', 'x'.repeat(400), 'word '.repeat(300)]) {
      const read = (guess: string) => {
        const whole = frame(`${around}|${guess}|yyy`)
        const cut = whole.length - 4
        const parts = [frame(`${around}${guess}`, 0x01), frame('ping', 0x89), frame(guess, 0x00), frame('end', 0x80)]
        return passed([frame(guess), whole.subarray(0, cut), whole.subarray(cut), ...parts], withoutSecrets)
      }
      assert.deepEqual(lengths(await read(right)), lengths(await read(wrong)), right)
    }
  }
})

test('WebSocket frames are forwarded unchanged for every split, each message at the latest with its end', async () => {
  const message = fc.array(fc.string({ maxLength: 400, size: 'max' }), { minLength: 1, maxLength: 4 })
  await fc.assert(
    fc.asyncProperty(fc.array(message, { maxLength: 4 }), fc.array(fc.nat(3_000)), async (messages, cuts) => {
      const frames = messages.flatMap((parts) =>
        parts.flatMap((part, index) => {
          const first = (index === 0 ? 0x01 : 0x00) | (index === parts.length - 1 ? 0x80 : 0x00)
          return [frame(Buffer.from(part), first), frame('ping', 0x89)]
        }),
      )
      const bytes = Buffer.concat(frames)
      const places = [0, ...cuts.map((cut) => cut % (bytes.length + 1)).sort((a, b) => a - b), bytes.length]
      const pieces = places.slice(1).map((place, at) => bytes.subarray(places[at], place))
      assert.equal((await passed(pieces, withoutSecrets)).join(''), bytes.toString('latin1'))
    }),
  )
  const hello = frame('hello')
  assert.deepEqual(
    await passed([hello, hello], withoutSecrets),
    [hello, hello].map((bytes) => bytes.toString('latin1')),
  )
})

test('no part of a secret in a WebSocket message is forwarded, for every split into frames and pieces', async () => {
  for (const around of ['', 'x'.repeat(1_000)]) {
    for (let cut = 0; cut <= secret.length; cut++) {
      const whole = frame(`${around}${secret} after`)
      const at = whole.length - ' after'.length - cut
      const inTwo = [
        frame(`${around}${secret.slice(0, cut)}`, 0x01),
        frame('', 0x89),
        frame(`${secret.slice(cut)} x`, 0x80),
      ]
      for (const pieces of [[whole.subarray(0, at), whole.subarray(at)], inTwo, [frame(secret, 0x89)]]) {
        const found = await passed(pieces, withoutSecrets)
        assert.equal(found.at(-1), undefined)
        assert.ok(!found.join('').includes('gh'), found.join(''))
      }
    }
  }
})

test('the held end of an unfinished message is dropped, and an invalid frame cuts the connection', async () => {
  const open = frame(`${'x'.repeat(1_000)}ghp_Zk3`, 0x01)
  const shown = (await passed([open], withoutSecrets)).join('')
  assert.ok(shown.length > 500 && !shown.includes('g'), shown)
  const masked = Buffer.from([0x81, 0x80, 0, 0, 0, 0])
  for (const bytes of [masked, frame('x', 0xc1), frame('x', 0x09), frame('x'.repeat(126), 0x89), Buffer.from('text')]) {
    assert.deepEqual(await passed([bytes], withoutSecrets), [undefined])
  }
  const heads = Array.from({ length: 40_000 }, () => Buffer.from([0, 0]))
  assert.equal((await passed([frame('x', 0x01), Buffer.concat(heads)], withoutSecrets)).at(-1), undefined)
})
