import assert from 'node:assert/strict'
import { test } from 'node:test'
import fc from 'fast-check'
import { compareVersions, parseRange, parseVersion, satisfies } from './version.ts'

function fits(version: string, range: string): boolean {
  const parsed = parseVersion(version) ?? assert.fail(`${version} was refused`)
  return satisfies(parsed, parseRange(range) ?? assert.fail(`${range} was refused`))
}

const table: readonly (readonly [range: string, fitting: string, other: string])[] = [
  ['1.2.3', '1.2.3 1.2.3+build', '1.2.4 1.2.3-rc.1'],
  ['=1.2.3', '1.2.3', '1.2.2'],
  ['1', '1.0.0 1.9.9', '0.9.0 2.0.0 1.0.0-rc.1'],
  ['1.x', '1.0.0 1.9.9', '2.0.0'],
  ['1.2', '1.2.0 1.2.9', '1.3.0'],
  ['1.2.*', '1.2.0 1.2.9', '1.3.0'],
  ['*', '0.0.1 9.9.9', '1.0.0-rc.1'],
  ['^1.2.3', '1.2.3 1.9.0', '1.2.2 2.0.0 2.0.0-rc.1 1.3.0-rc.1'],
  ['^1', '1.0.0 1.9.0', '0.9.0 2.0.0'],
  ['^0.2.3', '0.2.3 0.2.9', '0.3.0 0.2.2'],
  ['^0.0.3', '0.0.3', '0.0.4'],
  ['^0.0', '0.0.0 0.0.9', '0.1.0'],
  ['^0', '0.0.0 0.9.0', '1.0.0'],
  ['~1.2.3', '1.2.3 1.2.9', '1.3.0'],
  ['~1.2', '1.2.0 1.2.9', '1.3.0'],
  ['~1', '1.0.0 1.9.0', '2.0.0'],
  ['>=1 <2', '1.0.0 1.9.9', '0.9.0 2.0.0'],
  ['>1', '2.0.0', '1.9.9 1.0.0'],
  ['>1.2', '1.3.0', '1.2.9'],
  ['>1.2.3', '1.2.4', '1.2.3'],
  ['<=1', '1.9.9 0.1.0', '2.0.0'],
  ['<=1.2', '1.2.9', '1.3.0'],
  ['<1', '0.9.9', '1.0.0'],
  ['^1.2.3-beta.2', '1.2.3-beta.2 1.2.3-rc 1.2.3 1.9.0', '1.2.3-beta.1 1.3.0-rc 2.0.0'],
  ['>=1.0.0-a <2', '1.0.0-b 1.0.0', '1.1.0-b 2.0.0'],
  ['>*', '', '0.0.0 1.0.0'],
]

for (const [range, fitting, other] of table) {
  test(`the range ${range} matches ${fitting || 'nothing'} and excludes ${other}`, () => {
    for (const version of fitting.split(' ').filter(Boolean)) assert.ok(fits(version, range), version)
    for (const version of other.split(' ').filter(Boolean)) assert.ok(!fits(version, range), version)
  })
}

test('a caret range equals its bounds, and a stable range never matches a pre-release', () => {
  const small = fc.nat(3)
  fc.assert(
    fc.property(small, small, small, small, small, small, (a, b, c, x, y, z) => {
      const [version, base] = [`${x}.${y}.${z}`, `${a}.${b}.${c}`]
      const end = a > 0 ? `${a + 1}.0.0` : b > 0 ? `0.${b + 1}.0` : `0.0.${c + 1}`
      assert.equal(fits(version, `^${base}`), fits(version, `>=${base} <${end}`))
      assert.equal(fits(version, `>=${base}`), compare(version, base) >= 0)
      assert.equal(fits(version, `<${base}`), compare(version, base) < 0)
      assert.ok(!fits(`${version}-rc.1`, `>=${base}`))
    }),
  )
})

function compare(a: string, b: string): number {
  return compareVersions(parseVersion(a) ?? assert.fail(), parseVersion(b) ?? assert.fail())
}

for (const wrong of [
  '',
  ' ',
  '1 ',
  '1  2',
  'latest',
  '^',
  '1.2.3.4',
  '^^1',
  '1 || 2',
  'x.1',
  '01',
  '1.0.0-',
  '1.0.0-a..b',
]) {
  test(`${JSON.stringify(wrong)} is not a valid range`, () => {
    assert.equal(parseRange(wrong), undefined)
  })
}

test('an overlong range is refused', () => {
  assert.equal(parseRange('1 '.repeat(60)), undefined)
  assert.equal(parseRange('1.'.repeat(5_000)), undefined)
})
