import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { type BrokeredSecret, createBrokeredSecret, insertIntoBody, removeFromBody } from './secrets.ts'

const secret = 'k3y-aaab-aaac!%é'
const one = createBrokeredSecret({ variable: 'A', value: () => secret, hosts: ['https://a.example'], in: ['body'] })
const two = createBrokeredSecret({
  variable: 'B',
  value: () => 'another-aaab',
  hosts: ['https://a.example'],
  in: ['body'],
})

/** What comes of bytes that are divided at these places. */
async function through(
  text: string,
  cuts: readonly number[],
  work: (pieces: AsyncIterable<Uint8Array>) => AsyncIterable<Uint8Array>,
): Promise<string> {
  const bytes = Buffer.from(text, 'latin1')
  const places = [...new Set(cuts.map((cut) => cut % (bytes.length + 1)))].sort((a, b) => a - b)
  const source = async function* (): AsyncGenerator<Uint8Array, void> {
    for (const [index, start] of [0, ...places].entries()) yield bytes.subarray(start, places[index])
  }
  const passed: Uint8Array[] = []
  for await (const piece of work(source())) passed.push(piece)
  return Buffer.concat(passed).toString('latin1')
}

/** Texts in which beginnings of what is looked for stand beside it. */
function textsOf(...words: readonly string[]): fc.Arbitrary<string[]> {
  const parts = words.flatMap((word) => [word, word.slice(0, -1), word.slice(0, 5), word.slice(3)])
  return fc.array(fc.constantFrom(...parts, ...words, ' ', '\n', '{"x":"', '\0\xff'), { maxLength: 12 })
}

const cuts = fc.array(fc.nat(1_000), { maxLength: 30 })

test('placeholders in a body become secrets at every chunk boundary, and other bytes are unchanged', async () => {
  const secrets: readonly BrokeredSecret[] = [one, two]
  await fc.assert(
    fc.asyncProperty(textsOf(one.placeholder, two.placeholder), cuts, async (texts, places) => {
      const whole = texts.join('')
      const filled = await through(whole, places, (pieces) => insertIntoBody(pieces, {}, secrets))
      const wanted = secrets.reduce((text, { placeholder, secret: real }) => text.replaceAll(placeholder, real), whole)
      assert.equal(filled, wanted)
    }),
  )
})

test('secrets in a response are removed at every chunk boundary, and other bytes are forwarded', async () => {
  const secrets: readonly BrokeredSecret[] = [one, two]
  const coded = Buffer.from(secret).toString('base64')
  const words = [one.secret, two.secret, coded, encodeURIComponent(secret)]
  await fc.assert(
    fc.asyncProperty(textsOf(...words), cuts, async (texts, places) => {
      const whole = texts.join('')
      const cleared = await through(whole, places, (pieces) => removeFromBody(pieces, secrets))
      for (const word of words) assert.ok(!cleared.includes(word), JSON.stringify([whole, cleared]))
      const sound = !secrets.some(({ redactor }) => redactor.text(whole) !== whole)
      if (sound) assert.equal(cleared, whole)
    }),
  )
  assert.equal(
    await through(`a ${one.secret} b`, [4], (pieces) => removeFromBody(pieces, secrets)),
    `a ${one.placeholder} b`,
  )
})
