import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { guessesOf } from './guesses.fixture.ts'
import { createRedactor, redacted } from './redact.ts'

const secret = 'ghpZk3Qw9LmN7rTv'
const redactor = createRedactor({ values: [secret] })

/** What comes out for each piece, and at the end. */
function streamed(pieces: readonly string[], by = redactor): string[] {
  const stream = by.pieces()
  return [...pieces.map((piece) => stream.push(piece)), stream.end()]
}

/** A text divided at places. */
function divided(text: string, cuts: readonly number[]): string[] {
  const places = [0, ...cuts.map((cut) => cut % (text.length + 1)).sort((a, b) => a - b), text.length]
  return places.slice(1).map((place, at) => text.slice(places[at], place))
}

const forms: { readonly [name: string]: (text: string) => string } = {
  plain: (text) => text,
  base64: (text) => Buffer.from(text).toString('base64').replace(/=+$/, ''),
  hex: (text) => Buffer.from(text).toString('hex'),
  entities: (text) => [...text].map((one) => `&#${String(one.charCodeAt(0)).padStart(3, '0')};`).join(''),
  wide: (text) => [...text].join('\\u0000'),
  lines: (text) => Buffer.from(text).toString('base64').replace(/=+$/, '').replace(/.{6}/g, '$&\n'),
}

test('the boundaries of streamed chunks do not reveal whether a guessed secret prefix is right', () => {
  for (const [name, form] of Object.entries(forms)) {
    for (const { right, wrong } of guessesOf(secret)) {
      for (const around of ['|', '| \n', '|'.repeat(500), 'text '.repeat(200)]) {
        const borders = [right, wrong].map((guess) =>
          streamed([`${around}zzz`, `${around}${form(guess)}`, '|yyy', `${form(guess)}\n`, around]).map(
            (shown) => shown.length,
          ),
        )
        assert.deepEqual(borders[0], borders[1], `${name} ${right}`)
      }
    }
  }
})

test('a stream emits the same chunks for two secrets of equal length when the text holds neither', () => {
  const another = 'ghpZk3QwAbCdEfGh'
  const other = createRedactor({ values: [another] })
  assert.equal(other.reach, redactor.reach)
  const begun = fc.tuple(fc.constantFrom(secret, another), fc.nat(15), fc.constantFrom(...Object.values(forms)))
  const part = fc.oneof(
    begun.map(([value, length, form]) => form(value.slice(0, length))),
    fc.constantFrom(
      ' ',
      '\n',
      '\r\n',
      '\n\n',
      '|',
      '}\n',
      '&amp;',
      '&#1',
      '\\',
      '\\n',
      'x'.repeat(100),
      ' y'.repeat(90),
    ),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 12 }), fc.array(fc.nat(2_000), { maxLength: 8 }), (parts, cuts) => {
      const whole = parts.join('')
      fc.pre(redactor.text(whole) === whole && other.text(whole) === whole)
      const pieces = divided(whole, cuts)
      const shown = streamed(pieces)
      assert.deepEqual(shown, streamed(pieces, other))
      assert.equal(shown.join(''), whole)
    }),
  )
})

test('a long streamed text is redacted like the whole text, in every encoded form', () => {
  const around = fc.constantFrom('', ' ', 'x'.repeat(300), 'some text. '.repeat(40), '{"a":1}\n', 'a&amp;b '.repeat(60))
  const part = fc.oneof(
    around,
    fc.constantFrom(...Object.values(forms)).map((form) => form(secret)),
  )
  fc.assert(
    fc.property(fc.array(part, { maxLength: 8 }), fc.array(fc.nat(4_000), { maxLength: 12 }), (parts, cuts) => {
      const whole = parts.join(' ')
      assert.equal(streamed(divided(whole, cuts)).join(''), redactor.text(whole))
    }),
  )
})

test('an endless run of overlapping secrets is emitted as one mark, without buffering the run', () => {
  const repeated = createRedactor({ values: ['abababab'] })
  const shown = streamed(['x ', ...Array.from({ length: 200 }, () => 'ab'.repeat(50)), ' y'], repeated)
  assert.equal(shown.join(''), `x ${redacted} y`)
  assert.equal(shown.slice(0, 20).join(''), `x ${redacted}`)
})

test('a line is emitted at once when no encoded secret can continue after it, and always when there are no secrets', () => {
  for (const line of ['data: {"a":1}\n', 'data: word\n\n', 'event: x\r\ndata: word\r\n\r\n', 'Done.\r\n', '\n']) {
    assert.deepEqual(streamed([line, line]), [line, line, ''])
  }
  assert.deepEqual(streamed(['data: word\n']), ['', 'data: word\n'])
  assert.deepEqual(streamed(['ghpZ', 'k3'], createRedactor()), ['ghpZ', 'k3', ''])
  const lines = createRedactor({ values: ['one}\ntwo}\nthree'] })
  assert.deepEqual(streamed(['one}\n', 'two}\n', 'three'], lines).join(''), redacted)
})

test('the held back text is never longer than the longest form of a secret', () => {
  for (const filler of ['x', '\n', ' ', '&#0000000120;', '\\n', '&', 'a\n', '&NewLine;']) {
    const text = filler.repeat(20_000)
    assert.ok(text.length - redactor.settled(text) <= redactor.reach, filler)
    const stream = redactor.pieces()
    assert.ok(text.length - stream.push(text).length <= redactor.reach, filler)
  }
  assert.equal(createRedactor().reach, 0)
})
