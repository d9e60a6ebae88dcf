import assert from 'node:assert/strict'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { after, test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { asRoot, isRoot, outsider, real } from './bubblewrap.fixture.ts'
import { type BubblewrapOptions, explain, findBubblewrap } from './bubblewrap.ts'

const folder = mkdtempSync(join(tmpdir(), 'gantry-bwrap-'))
chmodSync(folder, 0o755)
after(() => rmSync(folder, { recursive: true }))

const options: BubblewrapOptions = { signal: new AbortController().signal, ...(isRoot ? { uid: outsider } : {}) }

/** A program in place of bubblewrap that tells a version and then fails with these words. */
function fake(name: string, version: string, words = 'bwrap: something'): string {
  const path = join(folder, name)
  writeFileSync(path, `#!/bin/sh\n[ "$1" = --version ] && { echo "${version}"; exit; }\necho "${words}" >&2\nexit 1\n`)
  chmodSync(path, 0o755)
  return path
}

async function refusal(path: string): Promise<ToolError> {
  const error = await findBubblewrap({ ...options, path }).then(
    () => assert.fail('it was taken'),
    (thrown: unknown) => thrown,
  )
  assert.ok(ToolError.is(error), String(error))
  assert.equal(error.code, 'RUNTIME_UNAVAILABLE')
  assert.equal(error.message, `${error.details?.reason} ${error.details?.remedy}`)
  return error
}

test('findBubblewrap returns the path and version of the installed bubblewrap', real, async () => {
  const found = await findBubblewrap(options)
  assert.match(found.path, /^\/.*bwrap$/)
  assert.match(found.version, /^\d+\.\d+/)
})

test('a missing, outdated or broken bubblewrap is refused with a remedy that names the package to install', async () => {
  assert.match((await refusal(join(folder, 'absent'))).message, /not installed.*apt-get install bubblewrap/)
  assert.match((await refusal(fake('old', 'bubblewrap 0.4.1'))).message, /is version 0\.4\.1.*dnf install/)
  assert.match((await refusal(fake('mute', ''))).message, /does not report its version/)
  writeFileSync(join(folder, 'torn'), '#!/no/such/shell\n')
  chmodSync(join(folder, 'torn'), 0o755)
  assert.match((await refusal(join(folder, 'torn'))).message, /does not run/)
})

test('a setuid bubblewrap is refused', async () => {
  const path = fake('setuid', 'bubblewrap 0.9.0')
  chmodSync(path, 0o4755)
  assert.match((await refusal(path)).message, /is setuid/)
})

test('a bubblewrap that sandbox uids cannot execute is refused', asRoot, async () => {
  mkdirSync(join(folder, 'closed'))
  const path = fake('closed/bwrap', 'bubblewrap 0.9.0')
  chmodSync(join(folder, 'closed'), 0o700)
  assert.match((await refusal(path)).message, /because other users cannot access .*\/closed\b/)
})

test('a bubblewrap that cannot create namespaces is refused with the reason and a remedy', async () => {
  const said = async (words: string): Promise<string> =>
    (await refusal(fake('fails', 'bubblewrap 0.9.0', words))).message
  assert.match(
    await said('bwrap: No permissions to create new namespace'),
    /^The kernel refuses to create user namespaces/,
  )
  assert.match(await said("bwrap: Can't mount proc on /newroot/proc"), /unmasked \/proc/)
  assert.match(await said('bwrap: strange'), /Bubblewrap failed: bwrap: strange/)
})

test('when the kernel refuses user namespaces, the remedy names the sysctl that does so', async () => {
  const set = (name: string, value: string) => async (file: string) => (file.endsWith(name) ? value : '')
  const remedy = async (name: string, value: string): Promise<unknown> =>
    (await explain('bwrap: strange', undefined, set(name, value))).details?.remedy
  assert.match(String(await remedy('max_user_namespaces', '0')), /user\.max_user_namespaces=16384/)
  assert.match(String(await remedy('unprivileged_userns_clone', '0')), /kernel\.unprivileged_userns_clone=1/)
  assert.match(String(await remedy('apparmor_restrict_unprivileged_userns', '1')), /AppArmor profile/)
  assert.doesNotMatch(String(await remedy('max_user_namespaces', '9')), /sysctl/)
})

test('the bubblewrap check stops when its signal aborts', async () => {
  const path = join(folder, 'slow')
  writeFileSync(path, '#!/bin/sh\nexec sleep 60\n')
  chmodSync(path, 0o755)
  const stop = new AbortController()
  const found = findBubblewrap({ ...options, path, signal: stop.signal })
  setImmediate(() => stop.abort(new Error('enough')))
  await assert.rejects(found, /enough/)
  assert.ok(existsSync(path))
})
