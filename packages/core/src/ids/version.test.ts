import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compareVersions, parseVersion, type Version } from './version.ts'

function version(text: string): Version {
  return parseVersion(text) ?? assert.fail(`${text} was refused`)
}

/** Writes a version as its parts say. */
function written({ major, minor, patch, prerelease }: Version): string {
  return `${major}.${minor}.${patch}${prerelease.length > 0 ? `-${prerelease.join('.')}` : ''}`
}

const number = fc.nat(12)
const identifier = fc.oneof(number, fc.stringMatching(/^[a-c-][a-c0-1-]{0,3}$/))
const anyVersion = fc
  .tuple(number, number, number, fc.array(identifier, { maxLength: 3 }))
  .map(([major, minor, patch, tail]) => `${major}.${minor}.${patch}${tail.length > 0 ? `-${tail.join('.')}` : ''}`)

test('versions sort as in the precedence example of the SemVer specification', () => {
  const order = '1.0.0-alpha 1.0.0-alpha.1 1.0.0-alpha.beta 1.0.0-beta 1.0.0-beta.2 1.0.0-beta.11 1.0.0-rc.1 1.0.0'
  const versions = `${order} 1.0.1 1.2.0 1.10.0 2.0.0-0 2.0.0`.split(' ').map(version)
  versions.forEach((one, index) => {
    versions.forEach((other, position) => {
      assert.equal(Math.sign(compareVersions(one, other)), Math.sign(index - position))
    })
  })
})

test('build metadata is parsed and ignored in comparisons', () => {
  assert.equal(version('1.0.0+a.b').build, 'a.b')
  assert.equal(compareVersions(version('1.0.0+a'), version('1.0.0+b')), 0)
})

test('a parsed version formats back unchanged, and the order of versions is total', () => {
  fc.assert(
    fc.property(anyVersion, anyVersion, anyVersion, (a, b, c) => {
      const [one, two, three] = [version(a), version(b), version(c)]
      assert.equal(written(one), a)
      assert.equal(compareVersions(one, two) === 0, a === b)
      assert.equal(Math.sign(compareVersions(one, two)) + Math.sign(compareVersions(two, one)), 0)
      if (compareVersions(one, two) <= 0 && compareVersions(two, three) <= 0)
        assert.ok(compareVersions(one, three) <= 0)
    }),
  )
})

for (const wrong of [
  '',
  '1',
  '1.0',
  'v1.0.0',
  '01.0.0',
  '1.0.0-',
  '1.0.0-01',
  '1.0.0+',
  '1.0.0 ',
  '1.0.0-a..b',
  '1e3.0.0',
]) {
  test(`${JSON.stringify(wrong)} is not a valid version`, () => {
    assert.equal(parseVersion(wrong), undefined)
  })
}

test('a version that is too long, or whose numbers are too large to compare, is refused', () => {
  assert.equal(parseVersion(`1.0.0-${'a'.repeat(200)}`), undefined)
  assert.equal(parseVersion('9999999999999999.0.0'), undefined)
  assert.equal(parseVersion('1.0.0-9999999999999999'), undefined)
})
