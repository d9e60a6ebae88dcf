import assert from 'node:assert/strict'
import { test } from 'node:test'
import { compileSchema } from '../validator.ts'

const samples: Readonly<Record<string, readonly [good: string, bad: string]>> = {
  'date-time': ['2024-02-29T23:59:60Z', '2023-02-29T00:00:00Z'],
  date: ['2000-02-29', '1900-02-29'],
  time: ['08:30:06.28-08:00', '24:00:00Z'],
  duration: ['P3DT4H', 'P1Y2D'],
  email: ['"joe bloggs"@example.com', 'a..b@example.com'],
  'idn-email': ['실례@실례.테스트', '2962'],
  hostname: ['xn--4gbwdl.xn--wgbh1c', '-bad.example'],
  'idn-hostname': ['실례.테스트', '〮실례.테스트'],
  ipv4: ['192.168.0.1', '087.10.0.1'],
  ipv6: ['::ffff:192.168.0.1', '1:2:3:4:5:6:7:8:9'],
  uri: ['http://[::1]:80/a?b#c', '//no/scheme'],
  'uri-reference': ['/abc?d', '\\\\WINDOWS\\share'],
  iri: ['http://ƒøø.ßår/?∂éœ=πîx', 'http://a b'],
  'iri-reference': ['#ƒrägmênt', '\\\\a'],
  'uri-template': ['http://example.com/{term:1}/{+path,x*}', 'http://example.com/{term'],
  uuid: ['2EB8AA08-AA98-11EA-B4AA-73B441D16380', '2eb8aa08-aa98-11ea-b4aa73b441d16380'],
  'json-pointer': ['/foo/bar~0/baz~1/%a', '/foo/~2'],
  'relative-json-pointer': ['0#', '01/a'],
  regex: ['([abc])+\\s+$', '^(abc]'],
}

for (const [format, [good, bad]] of Object.entries(samples)) {
  test(`${format} is enforced when formats are asserted, and only then`, () => {
    const asserting = compileSchema({ format }, { format: 'assert' })
    assert.equal(asserting.check(good), true)
    assert.equal(asserting.check(bad), false)
    assert.equal(compileSchema({ format }).check(bad), true)
  })
}

test('a format is checked on 200 KB of any repeated character without delay', () => {
  for (const format of Object.keys(samples)) {
    const { check } = compileSchema({ format }, { format: 'assert' })
    for (const character of ['a', '1', '.', ':', '-', '@', '"', '\\', '{', '/', '%', 'é', '\u200d']) {
      check(character.repeat(200_000))
      check(`P${character.repeat(200_000)}`)
    }
  }
})
