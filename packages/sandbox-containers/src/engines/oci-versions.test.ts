import assert from 'node:assert/strict'
import { chmodSync, mkdtempSync, rmSync, symlinkSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import fc from 'fast-check'
import { askOciProgram, checkOci, judgeOci, type OciJudgement, readOciProgram } from './oci-versions.ts'

const { signal } = new AbortController()
const folder = mkdtempSync(join(tmpdir(), 'gantry-oci-'))
after(() => rmSync(folder, { recursive: true }))

function stateOf(name: string, version: string, build?: string): OciJudgement['state'] {
  return judgeOci({ name, version, ...(build === undefined ? {} : { build }) }).state
}

/** A program on this machine that prints a text. */
function program(name: string, text: string, mode = 0o755): string {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n[ "$1" = --version ] || exit 1\ncat <<'END'\n${text}\nEND\n`)
  chmodSync(path, mode)
  return path
}

test('a runc without the fix of CVE-2024-21626 is old, and one with it is sound', () => {
  for (const version of [
    '1.0.0-rc93',
    '1.0.0~rc93+ds1',
    '1.1.0',
    '1.1.5',
    '1.1.5+ds1',
    '1.1.11',
    'v1.1.11',
    '1.1.12-rc.1',
  ]) {
    assert.equal(stateOf('runc', version), 'old', version)
  }
  for (const version of ['1.1.12', 'v1.1.12', '1.1.12+dev', '1.1.12-0ubuntu2', '1.2.0', '1.3.6', '1.10.0', '2.0.0']) {
    assert.equal(stateOf('runc', version), 'sound', version)
  }
})

test('a package of Debian with the fix counts, and an earlier revision or another package does not', () => {
  for (const build of [
    '1.1.5+ds1-1+deb12u1',
    '1.1.5+ds1-1+deb12u2',
    '1.1.5+ds1-1+deb12u10',
    '1.1.5+ds1-1+deb12u1+b4',
  ]) {
    assert.equal(stateOf('runc', '1.1.5+ds1', build), 'sound', build)
  }
  for (const build of [
    '1.1.5+ds1-1',
    '1.1.5+ds1-1+b2',
    '1.1.5+ds1-1+deb12u0',
    '1.1.4+ds1-1+deb12u1',
    '1.1.5+ds1-1+deb12ux',
  ]) {
    assert.equal(stateOf('runc', '1.1.5+ds1', build), 'old', build)
  }
})

test('faults of each branch that the policy of containers keeps out of reach are named and do not refuse', () => {
  const open = (version: string): readonly string[] => {
    const judged = judgeOci({ name: 'runc', version })
    return judged.state === 'sound' ? judged.open : assert.fail(`${version} is ${judged.state}`)
  }
  const races = ['CVE-2025-31133', 'CVE-2025-52565', 'CVE-2025-52881']
  for (const version of ['1.1.12', '1.2.7', '1.3.2', '1.4.0-rc.2', '1.4.0-dev']) {
    assert.deepEqual(open(version), [...races, 'CVE-2026-41579'], version)
  }
  for (const version of ['1.2.8', '1.2.99', '1.3.3', '1.3.5', '1.4.0-rc.3', '1.4.2']) {
    assert.deepEqual(open(version), ['CVE-2026-41579'], version)
  }
  for (const version of ['1.3.6', '1.4.3', '1.5.0-rc.3', '1.5.0', '1.6.1']) assert.deepEqual(open(version), [], version)
})

test('a runsc from before the first that the attacks ran against is old', () => {
  for (const version of ['release-20221218.3', '0.0~20210101.0', 'release-20200115.0-12-gabcdef0', '20190304.1']) {
    assert.equal(stateOf('runsc', version), 'old', version)
  }
  for (const version of [
    '0.0~20221219.0',
    'release-20221219.0',
    'release-20260905.0',
    'release-20260905.0-7-g160fafc',
  ]) {
    assert.equal(stateOf('runsc', version), 'sound', version)
  }
})

test('what has not the form of a version is unknown, whatever it holds', () => {
  const hostile = [
    '',
    ' ',
    '1',
    '1.1',
    '99',
    '1.1.12\n1.0.0',
    '1.1.12 ',
    '1.1.x',
    '-1.1.12',
    '1.1.12;id',
    'VERSION_MISSING',
  ]
  for (const version of [
    ...hostile,
    '1.1.99999999999',
    '٣.١.١٢',
    '1.1.12+'.padEnd(200, 'a'),
    '__proto__',
    '0x1.1.12',
  ]) {
    assert.equal(stateOf('runc', version), 'unknown', JSON.stringify(version))
    assert.equal(stateOf('runsc', version), 'unknown', JSON.stringify(version))
  }
  assert.equal(stateOf('crun', '1.8.1'), 'unknown')
  assert.equal(stateOf('constructor', '9.9.9'), 'unknown')
  fc.assert(
    fc.property(fc.string({ maxLength: 200 }), fc.string({ maxLength: 200 }), (version, build) => {
      assert.ok(['sound', 'old', 'unknown'].includes(stateOf('runc', version, build)))
      readOciProgram(version)
    }),
  )
})

test('a later version of a branch is never judged worse than an earlier one', () => {
  const part = fc.integer({ min: 0, max: 20 })
  const rank = { unknown: 0, old: 1, sound: 2 }
  fc.assert(
    fc.property(part, part, part, (minor, patch, more) => {
      const [one, other] = [
        judgeOci({ name: 'runc', version: `1.${minor}.${patch}` }),
        judgeOci({ name: 'runc', version: `1.${minor}.${patch + more}` }),
      ]
      assert.ok(rank[other.state] >= rank[one.state])
      if (one.state === 'sound' && other.state === 'sound') assert.ok(other.open.length <= one.open.length)
    }),
  )
})

test('a version that is too old is RUNTIME_UNAVAILABLE with the fault and what to install', () => {
  assert.throws(
    () => checkOci('Docker at unix:///x', { name: 'runc', version: '1.1.5' }),
    (error) => {
      assert.ok(ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE', String(error))
      assert.match(error.message, /runc of Docker at unix:\/\/\/x, version 1\.1\.5, is too old: CVE-2024-21626\./)
      assert.match(error.message, /Install runc 1\.1\.12 or newer/)
      return true
    },
  )
  const sound = checkOci('Docker', { name: 'runc', version: '1.3.6' })
  assert.deepEqual(sound, { text: 'runc 1.3.6', isKnown: true })
})

test('another program behind the name of the OCI runtime is refused, and an unknown one is not called known', () => {
  assert.throws(
    () => checkOci('Docker', { name: 'runc', version: '1.3.6' }, 'runsc'),
    /says that it is runc 1\.3\.6, and runsc was asked for/,
  )
  assert.deepEqual(checkOci('Docker', undefined, 'runsc'), { text: 'runsc of unknown version', isKnown: false })
  assert.equal(checkOci('Docker', { name: 'runsc', version: 'VERSION_MISSING' }, 'runsc').isKnown, false)
  assert.equal(checkOci('Docker', { name: 'crun', version: '1.8.1' }).isKnown, false)
})

test('a program of this machine is asked for its version, and what it prints is bounded', async () => {
  const debian = program('runc', 'runc version 1.1.5+ds1\ncommit: 1.1.5+ds1-1+deb12u1\nspec: 1.0.2-dev')
  const expected = { name: 'runc', version: '1.1.5+ds1', build: '1.1.5+ds1-1+deb12u1' }
  assert.deepEqual(await askOciProgram(debian, signal), expected)
  const upstream = program('upstream', 'runc version 1.3.6\ncommit: v1.3.6-0-gabcdef')
  assert.deepEqual(await askOciProgram(upstream, signal), { name: 'runc', version: '1.3.6' })
  const flood = join(folder, 'flood')
  writeFileSync(flood, '#!/bin/sh\nyes runc version 9.9.9\n', { mode: 0o755 })
  assert.equal(await askOciProgram(flood, signal), undefined)
  for (const text of [
    '',
    'no version',
    'runc version',
    'runc version 1.1.12 and more',
    '\u001b[2Jrunc version 1.2.3',
  ]) {
    assert.equal(await askOciProgram(program('odd', text), signal), undefined, JSON.stringify(text))
  }
})

test('a program that another user could replace, or that is no file, is not started', async () => {
  const canary = join(folder, 'canary')
  const text = `runc version 1.3.6\nEND\n: >${canary}\ncat <<'END'`
  const own = program('own', text)
  assert.deepEqual(await askOciProgram(own, signal), { name: 'runc', version: '1.3.6' })
  rmSync(canary)
  const open = program('open', text, 0o777)
  symlinkSync(open, join(folder, 'link'))
  for (const path of [
    open,
    join(folder, 'link'),
    'own',
    './own',
    folder,
    '/nowhere/runc',
    join(folder, 'own', '..', 'open'),
  ]) {
    assert.equal(await askOciProgram(path, signal), undefined, path)
  }
  assert.throws(() => rmSync(canary), /ENOENT/)
})
