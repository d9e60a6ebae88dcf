import assert from 'node:assert/strict'
import { createHash } from 'node:crypto'
import { appendFileSync, cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { launcherBinary } from './binary.ts'

const native = join(import.meta.dirname, '../../native')
const linux = { platform: 'linux', arch: 'x64' }
const place = mkdtempSync(join(tmpdir(), 'gantry-launcher-binary-'))
after(() => rmSync(place, { recursive: true, force: true }))

function sha256(path: string): string {
  return createHash('sha256').update(readFileSync(path)).digest('hex')
}

function hashesOf(folder: string, names: string[]): { [name: string]: string } {
  return Object.fromEntries(names.sort().map((name) => [name, sha256(join(native, folder, name))]))
}

test('the committed launchers were built from the committed sources; else run scripts/build-launcher.ts', () => {
  const manifest = JSON.parse(readFileSync(join(native, 'bin/manifest.json'), 'utf8'))
  assert.deepEqual(hashesOf('src', readdirSync(join(native, 'src'))), manifest.sources)
  const binaries = readdirSync(join(native, 'bin')).filter((name) => name !== 'manifest.json')
  assert.deepEqual(hashesOf('bin', binaries), manifest.binaries)
  for (const name of binaries) assert.equal(statSync(join(native, 'bin', name)).mode & 0o111, 0o111, name)
})

test('the launcher binary is found from the sources and from an installed package', async () => {
  const found = await launcherBinary(undefined, linux)
  assert.equal(found.path, join(native, 'bin/gantry-sandbox-linux-x64'))
  assert.equal(found.sha256, sha256(found.path))
  assert.equal((await launcherBinary(join(native, '../../service/src'), linux)).path, found.path)
})

test('a launcher binary with another hash is refused', async () => {
  cpSync(native, join(place, 'native'), { recursive: true })
  await launcherBinary(place, linux)
  appendFileSync(join(place, 'native/bin/gantry-sandbox-linux-x64'), '!')
  await assert.rejects(launcherBinary(place, linux), isUnavailable(/does not match its manifest/))
})

test('a platform without a launcher binary is refused with the reason', async () => {
  await assert.rejects(
    launcherBinary(undefined, { platform: 'darwin', arch: 'arm64' }),
    isUnavailable(/darwin on arm64/),
  )
  await assert.rejects(launcherBinary('/', linux), isUnavailable(/Install the package again/))
})

function isUnavailable(message: RegExp): (error: unknown) => boolean {
  return (error) => ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE' && message.test(error.message)
}
