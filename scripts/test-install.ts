import { spawnSync } from 'node:child_process'
import { globSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'

/**
 * Builds the packages, installs their tarballs into an empty folder as a user does, and runs test/install there. A
 * pattern on the command line chooses files of it. The tests find the folder in GANTRY_INSTALLED, the tarballs in
 * GANTRY_TARBALLS.
 */
const root = dirname(import.meta.dirname)
const tarballs = join(root, 'build/tarballs')
const [pattern = 'test/install/*.test.ts'] = process.argv.slice(2)
const project = mkdtempSync(join(tmpdir(), 'gantry-installed-'))
const started = Date.now()

try {
  run('build the packages', process.execPath, [join(root, 'scripts/build.ts'), '--tarballs'], root)
  writeFileSync(join(project, 'package.json'), '{"name":"of-a-user","private":true,"type":"module"}\n')
  const packages = globSync('*.tgz', { cwd: tarballs }).map((file) => join(tarballs, file))
  // Without scripts, because no package of ours needs one; a test that a script is missed fails as a user's program would.
  const flags = ['--prefer-offline', '--ignore-scripts', '--no-audit', '--no-fund', '--loglevel=error']
  run('install the tarballs', 'npm', ['install', ...packages, ...flags], project)
  const env = { ...process.env, GANTRY_INSTALLED: project, GANTRY_TARBALLS: tarballs }
  const files = globSync(pattern, { cwd: root })
  run('use what is installed', process.execPath, ['--test', '--test-timeout=120000', ...files], root, env)
} finally {
  rmSync(project, { recursive: true, force: true })
  rmSync(join(root, 'build'), { recursive: true, force: true })
}

function run(what: string, file: string, args: readonly string[], cwd: string, env = process.env): void {
  const { status } = spawnSync(file, args, { cwd, env, stdio: ['ignore', 'inherit', 'inherit'] })
  console.log(
    `${what}: ${status === 0 ? 'done' : 'failed'}, ${((Date.now() - started) / 1000).toFixed(1)} s since the start`,
  )
  if (status !== 0) throw new Error(`could not ${what}`)
}
