import { randomUUID } from 'node:crypto'
import { existsSync } from 'node:fs'
import { chmod, mkdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Json } from '@gantry/contract'
import type { Outcome, SandboxJob } from '@gantry/core/internal/runtimes/runtime'
import type { Attack, Ground } from './attack.ts'
import { linkAttacks } from './filesystem-links.ts'
import { tracesAttacks } from './filesystem-traces.ts'
import { canaryIn, endOf, javascript, managedBy, python, throughJavaScript } from './programs.ts'

/** The same program in both languages where a runtime reads both in ways of its own. */
function jobsFor({ kind }: Ground, code: { readonly python: string; readonly javascript: string }, given: Json) {
  const jobs: readonly SandboxJob[] = [python(code.python, given), javascript(code.javascript, given)]
  return kind === 'wasm' ? jobs : jobs.slice(0, 1)
}

async function each(jobs: readonly SandboxJob[], run: (job: SandboxJob) => Promise<Outcome>): Promise<Outcome[]> {
  const outcomes: Outcome[] = []
  for (const job of jobs) outcomes.push(await run(job))
  return outcomes
}

const reading = {
  python: `${throughJavaScript}
seen = []
climb = '../' * 12
for path in given:
    for way in (path, '/proc/1/root' + path, '/proc/self/root' + path, '/proc/self/cwd/' + climb + path, climb + path[1:]):
        try: seen.append(open(way, 'rb').read(4096).decode('latin1'))
        except OSError: pass
    seen.append(by_javascript(f"process.getBuiltinModule('fs').readFileSync({json.dumps(path)}, 'utf8')"))
return seen`,
  javascript: `
const fs = await import('fs')
const seen = []
const climb = '../'.repeat(12)
const host = () => globalThis.constructor.constructor('return process')()
for (const path of given) {
  try { seen.push(host().getBuiltinModule('fs').readFileSync(path, 'utf8')) } catch {}
  try { seen.push(host().mainModule.require('fs').readFileSync(path, 'utf8')) } catch {}
  for (const way of [path, '/proc/self/root' + path, climb + path.slice(1), 'file://' + path, './/' + climb + path]) {
    try { seen.push(fs.readFileSync(way, 'utf8').slice(0, 4096)) } catch {}
  }
}
return seen`,
}

const readSecrets: Attack = {
  number: 1,
  title: 'read /etc/shadow, keys and settings of the host',
  async attempt(ground) {
    const { jobs, secrets } = await secretsFor(ground)
    const outcomes = await each(jobs, ground.inside)
    return endOf(outcomes.some((outcome) => secrets.some((secret) => seenIn(outcome).includes(secret))))
  },
  async control(ground) {
    const { jobs, secrets } = await secretsFor(ground)
    const outcomes = await each(jobs, ground.outside)
    return endOf(outcomes.every((outcome) => secrets.every((secret) => seenIn(outcome).includes(secret))))
  },
}

async function secretsFor(ground: Ground) {
  const canary = canaryIn(ground, '.env')
  const shadow = await readFile('/etc/shadow', 'latin1').catch(() => '')
  const secrets = [canary.text, ...(shadow === '' ? [] : [shadow.slice(0, 4_096)])]
  return { jobs: jobsFor(ground, reading, [canary.path, '/etc/shadow']), secrets }
}

function seenIn({ exit, value }: Outcome): readonly Json[] {
  if (!('code' in exit) || exit.code !== 0 || !Array.isArray(value)) throw new Error('The program did not end well.')
  return value
}

const writing = {
  python: `
for path in given:
    try: open(path, 'a').write('written')
    except OSError: pass
    try: os.remove(path + '.gone')
    except OSError: pass
return managed`,
  javascript: `
const fs = await import('fs')
for (const path of given) {
  try { fs.appendFileSync(path, 'written') } catch {}
  try { fs.unlinkSync(path + '.gone') } catch {}
}
return []`,
}

const writeOutside: Attack = {
  number: 2,
  title: 'write outside of the workspace, and remove there',
  async attempt(ground) {
    const { ledger, text } = await ledgerIn(ground)
    const name = `gantry-attack-${randomUUID()}`
    const places = ['/', '/etc', '/usr', '/usr/lib', '/root', '/home', '/var/tmp', '/gantry', '/opt', '/dev', tmpdir()]
    const paths = places.map((folder) => join(folder, name))
    const given = [ledger, ...paths, `${'../'.repeat(12)}${ledger.slice(1)}`]
    for (const outcome of await each(jobsFor(ground, writing, given), ground.inside)) seenIn(outcome)
    const made = paths.filter(existsSync)
    await Promise.all(made.map((path) => rm(path)))
    const isAsBefore = (await readFile(ledger, 'utf8')) === text && existsSync(`${ledger}.gone`)
    return endOf(!isAsBefore || made.length > 0)
  },
  async control(ground) {
    const { ledger, text } = await ledgerIn(ground)
    await each(jobsFor(ground, writing, [ledger]), ground.outside)
    return endOf((await readFile(ledger, 'utf8')) !== text && !existsSync(`${ledger}.gone`))
  },
}

async function ledgerIn(ground: Ground): Promise<{ ledger: string; text: string }> {
  const { path: ledger, text } = canaryIn(ground, 'ledger')
  await chmod(ground.folder, 0o777)
  await writeFile(`${ledger}.gone`, '')
  return { ledger, text }
}

/** Names that mean another place to whoever joins them to a folder, on some system or other. */
const oddNames = ['..\\..\\up', 'a\nb', '-rf', '....', '\u202e.txt', 'C:up', '~', '$(id)', ' ', 'nul\u0001']

const climbingNames: Attack = {
  number: 3,
  title: 'names of files that climb out, in and out',
  async attempt(ground) {
    const { ledger, text } = await ledgerIn(ground)
    const files = (path: string) => new Map([[path, Buffer.from('climbed')]])
    for (const path of [`${'../'.repeat(12)}${ledger.slice(1)}`, ledger, `a/../../../../../../../..${ledger}`]) {
      // Refused or written inside; what counts is the ledger.
      await ground.inside(python('return managed', null, { files: files(path) })).catch(() => undefined)
    }
    const code = `
for name in given:
    try: open(name, 'w').write('out')
    except OSError: pass
try: open(b'\\xff\\xfe', 'w').write('out')
except (OSError, ValueError): pass
return managed`
    const outcome = await ground.inside(python(code, oddNames, { collect: { files: 100, bytes: 100_000 } }))
    managedBy(outcome)
    const climbs = [...outcome.files.keys()].some((name) => !resolve('/a/b', name).startsWith('/a/b/'))
    return endOf(climbs || (await readFile(ledger, 'utf8')) !== text || outcome.files.size === 0)
  },
  // What a collector that joins names as they are does.
  async control(ground) {
    const { ledger, text } = await ledgerIn(ground)
    await mkdir(join(ground.folder, 'workspace'))
    await writeFile(`${ground.folder}/workspace/../ledger`, 'climbed')
    return endOf((await readFile(ledger, 'utf8')) !== text)
  },
}

/** 1–12: files of the host, of other sandboxes, and what is brought out. */
export const filesystemAttacks: readonly Attack[] = [
  ...[readSecrets, writeOutside, climbingNames, ...linkAttacks, ...tracesAttacks],
].sort((one, other) => one.number - other.number)
