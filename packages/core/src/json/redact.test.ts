import assert from 'node:assert/strict'
import { hash } from 'node:crypto'
import { test } from 'node:test'
import fc from 'fast-check'
import { createRedactionMark, createRedactor, isSecretKey, redacted } from './redact.ts'

const secret = 's3cr3t-V4lue/with+signs'
const bySecret = createRedactor({ values: [secret] })

test('the redactor removes a secret in every encoded form', () => {
  const bytes = Buffer.from(secret)
  const forms = [
    secret,
    bytes.toString('base64'),
    bytes.toString('base64url'),
    bytes.toString('hex'),
    bytes.toString('hex').toUpperCase(),
    encodeURIComponent(secret),
  ]
  for (const form of forms) {
    const shown = bySecret.text(`before ${form} after`)
    assert.ok(!shown.includes(form), form)
    assert.ok(shown.startsWith('before ') && shown.includes(redacted) && shown.endsWith(' after'), shown)
  }
})

test('the redactor removes a secret in UTF-16, in another Unicode normalization, or encoded twice', () => {
  const name = 'Zoë’s pässword'
  const byName = createRedactor({ values: [name] })
  for (const [redactor, value] of [
    [bySecret, secret],
    [byName, name],
  ] as const) {
    const little = Buffer.from(value, 'utf16le')
    const big = Buffer.from(little).swap16()
    const base64 = Buffer.from(value).toString('base64')
    const forms = [
      ...[little, big].flatMap((bytes) => [bytes.toString('hex'), bytes.toString('base64').replace(/.?=+$/, '')]),
      [...value].join('\0'),
      value.normalize('NFD'),
      Buffer.from(value.normalize('NFD')).toString('base64url').slice(0, -1),
      encodeURIComponent(encodeURIComponent(value)),
      encodeURIComponent(base64.replace(/=+$/, '')),
      Buffer.from(base64.replace(/=+$/, '')).toString('base64').replace(/.?=+$/, ''),
    ]
    for (const form of forms) {
      const shown = redactor.text(`before ${form} after`)
      assert.ok(!shown.includes(form) && shown.includes(redacted), form)
      assert.ok(shown.startsWith('before ') && shown.endsWith(' after'), shown)
    }
    const inside = Buffer.from(`user:${Buffer.from(`x${value}y`).toString('base64')}!`).toString('base64')
    assert.ok(redactor.text(inside).includes(redacted), inside)
  }
})

test('the redactor removes a secret from encoded text wrapped over lines, whole or streamed', () => {
  const around = fc.string({ maxLength: 120, size: 'max' })
  const form = fc.constantFrom('base64' as const, 'hex' as const)
  const lineBreak = fc.constantFrom('\n', '\r\n', '\n  ', '\\n', '\\r\\n')
  fc.assert(
    fc.property(
      around,
      around,
      form,
      fc.constantFrom(64, 76),
      lineBreak,
      fc.nat(300),
      (before, after, encoding, width, newline, cut) => {
        const encoded = Buffer.from(before + secret + after).toString(encoding)
        const wrapped = encoded.match(new RegExp(`.{1,${width}}`, 'g'))?.join(newline) ?? ''
        const shown = bySecret.text(wrapped)
        const left = Buffer.from(shown.replace(/\[redacted\]|\\[rn]|\s/g, ''), encoding).toString('latin1')
        assert.ok(shown.includes(redacted) && !left.includes(secret), wrapped)
        const stream = bySecret.pieces()
        assert.equal(stream.push(wrapped.slice(0, cut)) + stream.push(wrapped.slice(cut)) + stream.end(), shown)
      },
    ),
  )
})

test('a text streamed in two pieces, split anywhere, is redacted like the whole text', () => {
  const hex = Buffer.from(secret).toString('hex')
  for (const newline of ['\n', '\r\n', '\\r\\n']) {
    const wrapped = `x ${hex.slice(0, 20)}${newline}${hex.slice(20)}${newline}y`
    for (let cut = 0; cut <= wrapped.length; cut++) {
      const stream = bySecret.pieces()
      const shown = stream.push(wrapped.slice(0, cut)) + stream.push(wrapped.slice(cut)) + stream.end()
      assert.equal(shown, `x [redacted]${newline}y`, `${cut}`)
    }
  }
})

test('the redactor removes a secret inside longer base64 text at any alignment', () => {
  for (const prefix of ['', 'a', 'ab', 'abc', 'user:']) {
    const encoded = Buffer.from(`${prefix}${secret}-tail`).toString('base64')
    assert.ok(bySecret.text(encoded).includes(redacted), prefix)
  }
})

test('the redactor removes the base64 of a secret with the characters and padding that hold its last bits, whole or streamed', () => {
  for (const value of [secret, `${secret}1`, `${secret}12`]) {
    const redactor = createRedactor({ values: [value] })
    for (const prefix of ['', 'a', 'ab', 'abc', 'abcd']) {
      for (const encoding of ['base64', 'base64url'] as const) {
        const whole = Buffer.from(prefix + value).toString(encoding)
        for (const form of [whole, encodeURIComponent(whole)]) {
          const shown = redactor.text(`"${form}"`)
          assert.match(shown, /^"[\w+/%-]{0,6}\[redacted\]"$/, `${form} ${shown}`)
          for (let cut = 0; cut <= form.length + 2; cut++) {
            const stream = redactor.pieces()
            const both = stream.push(`"${form}"`.slice(0, cut)) + stream.push(`"${form}"`.slice(cut)) + stream.end()
            assert.equal(both, shown, `${cut}`)
          }
        }
      }
    }
  }
})

test('no secret survives in any string or key of any value', () => {
  const text = fc.oneof(
    fc.string(),
    fc.constant(secret),
    fc.string().map((around) => around + secret + around),
  )
  const value = fc.letrec((tie) => ({
    value: fc.oneof({ depthSize: 'small' }, text, fc.integer(), tie('list'), tie('object')),
    list: fc.array(tie('value'), { maxLength: 4 }),
    object: fc.dictionary(text, tie('value'), { maxKeys: 4 }),
  })).value
  fc.assert(fc.property(value, (any) => !JSON.stringify(bySecret.value(any as never)).includes(secret)))
})

test('a secret split over the pieces of a stream is removed, and all other text is kept', () => {
  const around = fc.string({ maxLength: 5 })
  fc.assert(
    fc.property(around, around, fc.array(fc.nat(40), { maxLength: 6 }), (before, after, cuts) => {
      const whole = `${before}${secret}${after}`
      const places = [...new Set(cuts.map((cut) => Math.min(cut, whole.length)))].sort((a, b) => a - b)
      const pieces = [0, ...places].map((from, index) => whole.slice(from, places[index] ?? whole.length))
      const stream = bySecret.pieces()
      const shown = pieces.map((piece) => stream.push(piece)).join('') + stream.end()
      assert.equal(shown, bySecret.text(whole))
    }),
  )
})

test('members with a secret-like key are redacted at any depth', () => {
  const shown = createRedactor({ mark: redacted }).value({
    user: 'alice',
    list: [{ apiKey: 'k', nested: { AUTH_TOKEN: 't', 'private-key': 'p', password: { inner: 1 } } }],
  })
  const expected = {
    user: 'alice',
    list: [{ apiKey: redacted, nested: { AUTH_TOKEN: redacted, 'private-key': redacted, password: redacted } }],
  }
  assert.deepEqual(shown, expected)
})

test('a redaction mark holds the length and a keyed digest, so that equal values match and guesses cannot be tested', () => {
  const { value } = createRedactor({ values: ['ghpZ9xk3'], mark: createRedactionMark('a key') })
  const mark = (bytes: number): RegExp => new RegExp(`^\\[redacted ${bytes} bytes hmac-sha256:[0-9a-f]{32}\\]$`)
  const shown = value({ password: 'hünter2', pin: [1, 2], token: 'ghpZ9xk3', plain: 'ghpZ9xk3' }) as {
    [key: string]: string
  }
  assert.match(shown.password ?? '', mark(8))
  assert.match(shown.pin ?? '', mark(5))
  assert.match(shown.plain ?? '', mark(8))
  assert.deepEqual(value({ secret: 'hünter2' }), { secret: shown.password }, 'the same text has the same mark')
  assert.notEqual(shown.token, shown.plain, 'who chooses what is hidden by its key learns nothing of a known secret')
  const digest = hash('sha256', 'hünter2').slice(0, 32)
  assert.ok(!(shown.password ?? '').includes(digest))
  assert.notDeepEqual(createRedactor().value({ password: 'hünter2' }), { password: shown.password })
  const url = value('pg://u:pre-ghpZ9xk3-post@h') as string
  assert.match(
    url,
    /^pg:\/\/u:\[redacted 17 bytes hmac-sha256:\w{32}\]@h$/,
    'a secret within a password leaves no rest',
  )
})

test('isSecretKey matches whole words only', () => {
  for (const key of ['author', 'tokenizer', 'keyboard', 'secretary', 'passenger', 'key', 'monkey', 'compass']) {
    assert.equal(isSecretKey(key), false, key)
  }
  for (const key of ['token', 'accessToken', 'api_key', 'API-KEY', 'x-api-key', 'Set-Cookie', 'clientSecret', 'pwd']) {
    assert.equal(isSecretKey(key), true, key)
  }
})

test('a value without secrets passes redaction unchanged, and no prototype is modified', () => {
  fc.assert(
    fc.property(fc.jsonValue(), (value) => {
      const plain = JSON.parse(JSON.stringify(value)) as never
      assert.deepEqual(createRedactor({ values: [secret], keys: false }).value(plain), plain)
      assert.deepEqual(Object.keys(Object.prototype), [])
    }),
  )
})

test('overlapping secrets are redacted as one, with no remainder', () => {
  const both = createRedactor({ values: ['abcdefgh', 'efghijkl'] })
  assert.equal(both.text('x abcdefghijkl y'), 'x [redacted] y')
  assert.equal(createRedactor({ values: ['aaaa'] }).text('aaaaaa'), '[redacted]')
})

test('the redactor finds a secret in URL and form encoding, with any of its characters percent-encoded', () => {
  const secret = "CAN!ARY*odd('x')~ tilde"
  const redactor = createRedactor({ values: [secret], keys: false })
  const strict = encodeURIComponent(secret).replace(/[!'()*]/g, (c) => `%${c.charCodeAt(0).toString(16).toUpperCase()}`)
  const forms = [
    encodeURIComponent(secret),
    strict,
    strict.replaceAll('%20', '+'),
    `${new URLSearchParams({ k: secret })}`.slice(2),
  ]
  for (const form of forms) assert.equal(redactor.text(`?k=${form}&x`).includes('ARY'), false, form)
})

const signNames: { readonly [sign: string]: readonly string[] } = {
  ...{ '+': ['plus'], '/': ['sol'], '=': ['equals'], '&': ['amp', 'AMP'], '<': ['lt'], '>': ['gt'], '"': ['quot'] },
  ...{ "'": ['apos'], _: ['lowbar'], '.': ['period'], ':': ['colon'], '!': ['excl'], '@': ['commat'], '|': ['vert'] },
  ...{ é: ['eacute'], '§': ['sect'], '{': ['lcub', 'lbrace'], '\\': ['bsol'], '*': ['ast'], ';': ['semi'] },
}

/** A character as a page may write it; `&` itself is never plain there. */
function inPage(character: string, choice: number, zeros: number): string {
  const code = character.codePointAt(0) ?? 0
  const hex = code.toString(16)
  const pad = '0'.repeat(zeros)
  const names = (signNames[character] ?? []).map((name) => `&${name};`)
  const ways = [`&#${pad}${code};`, `&#x${pad}${hex};`, `&#X${pad}${hex.toUpperCase()};`, ...names]
  if (character !== '&') ways.push(character, character)
  return ways[choice % ways.length] ?? character
}

test('the redactor finds a secret with any of its characters written as HTML entities, whole or streamed', () => {
  const character = fc.constantFrom(...'abzAZ09+/=&<>"\'_.:!@|é§{\\*;#-~ €😀')
  const written = fc.tuple(character, fc.nat(20), fc.nat(4))
  const around = fc.string({ maxLength: 8 }).map((text) => text.replace(/[&#a-z0-9]/gi, '-'))
  fc.assert(
    fc.property(
      fc.array(written, { minLength: 6, maxLength: 30 }),
      around,
      around,
      fc.boolean(),
      fc.array(fc.nat(200), { maxLength: 5 }),
      (parts, before, after, encoded, cuts) => {
        const value = parts.map(([sign]) => sign).join('')
        // The same choices for a form in base64, whose signs are entities in a page just as well.
        const signs = encoded ? [...Buffer.from(value).toString('base64')] : parts.map(([sign]) => sign)
        const form = signs.map((sign, at) => {
          const [, choice, zeros] = parts[at % parts.length] ?? ['', 0, 0]
          return inPage(sign, choice, zeros)
        })
        const redactor = createRedactor({ values: [value] })
        const whole = `${before} ${form.join('')} ${after}`
        const shown = redactor.text(whole)
        assert.ok(shown.includes(redacted) && !shown.includes(form.join('')), `${value} ${whole} ${shown}`)
        assert.ok(shown.length <= before.length + after.length + redacted.length + 2, `${whole} ${shown}`)
        const places = [0, ...cuts.map((cut) => Math.min(cut, whole.length)).sort((a, b) => a - b), whole.length]
        const stream = redactor.pieces()
        const pieces = places.slice(1).map((place, at) => stream.push(whole.slice(places[at], place)))
        assert.equal(pieces.join('') + stream.end(), shown)
      },
    ),
  )
})

test('HTML entities are decoded without their semicolon, and text that only resembles them is unchanged', () => {
  const redactor = createRedactor({ values: ['q83v+7/A='] })
  assert.equal(redactor.text('<p>q83v&#43"'), '<p>q83v&#43"')
  assert.equal(redactor.text('q83v&#x2B;7&#47A='), redacted)
  assert.equal(redactor.text('q83v+7/A&#61'), redacted)
  for (const text of ['a&b', '&unknown;', '&#xZZ;', '&#99999999;', '&#0;', 'a & b &amp; c', '&']) {
    assert.equal(redactor.text(text), text)
    const stream = redactor.pieces()
    assert.equal(stream.push(text) + stream.end(), text)
  }
})

test('cut never splits a secret', () => {
  const text = `x ${secret} y`
  const end = secret.length + 2
  for (let at = 0; at <= text.length; at++) {
    assert.equal(bySecret.cut(text, at), at > 2 && at < end ? 2 : at)
  }
  assert.equal(createRedactor().cut(text, 7), 7)
})
