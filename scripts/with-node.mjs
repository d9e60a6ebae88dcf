// Runs a script on the pinned Node, installing the dependencies first when they are missing or out of date.
// Plain JavaScript, because the machine's own Node starts it, whatever its version.
import { spawn, spawnSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { constants } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const root = dirname(dirname(fileURLToPath(import.meta.url)))
const stamp = join(root, 'node_modules', '.gantry-setup')
const [first, ...rest] = process.argv.slice(2)

install()
if (first === '--bin') run(process.cwd(), join(root, 'node_modules', '.bin', rest[0]), rest.slice(1))
else run(process.cwd(), pinnedNode(), [join(root, first), ...rest])

/** Runs `npm ci` when the installed lock file differs from the committed one. */
function install() {
  const lock = createHash('sha256')
    .update(readFileSync(join(root, 'package-lock.json')))
    .digest('hex')
  if (existsSync(stamp) && readFileSync(stamp, 'utf8') === lock && pinnedNode() !== undefined) return
  console.error('gantry: installing dependencies (npm ci); the pinned Node 24 is among them, about 190 MB …')
  const started = Date.now()
  const npm = process.platform === 'win32' ? 'npm.cmd' : 'npm'
  const { status, error } = spawnSync(npm, ['ci', '--no-audit', '--no-fund', '--loglevel=error', '--progress=true'], {
    cwd: root,
    stdio: ['ignore', 2, 2],
    shell: process.platform === 'win32',
  })
  if (error !== undefined || status !== 0) {
    console.error(`gantry: npm ci failed${error === undefined ? ` with exit code ${status}` : `: ${error.message}`}.`)
    console.error('gantry: check that npm reaches its registry, then run the same command again.')
    process.exit(1)
  }
  mkdirSync(dirname(stamp), { recursive: true })
  writeFileSync(stamp, lock)
  console.error(`gantry: installed in ${((Date.now() - started) / 1000).toFixed(1)} s.`)
}

/** Node 24 from npm; on platforms without such a package, the machine's own if it is new enough. */
function pinnedNode() {
  const pinned = join(root, 'node_modules', '.bin', process.platform === 'win32' ? 'node.cmd' : 'node')
  if (existsSync(pinned)) return pinned
  return Number(process.versions.node.split('.')[0]) >= 24 ? process.execPath : undefined
}

function run(cwd, program, args) {
  if (program === undefined) {
    console.error(`gantry: this platform needs Node 24 or newer; this is ${process.version}.`)
    process.exit(1)
  }
  const path = [join(root, 'node_modules', '.bin'), process.env.PATH].join(delimiter)
  // The caches of compiled code stay inside the checkout.
  const cache = join(root, 'node_modules', '.cache', 'compile')
  const env = { ...process.env, PATH: path, NODE_COMPILE_CACHE: cache }
  const child = spawn(program, args, { cwd, stdio: 'inherit', env })
  // Forward signals to the child, which may need time to stop; a terminal signals both processes itself.
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) {
    process.on(name, () => (name === 'SIGINT' && process.stdin.isTTY) || child.kill(name))
  }
  // When npm is killed, its shell dies too, but not the child of that shell.
  const parent = process.ppid
  const orphaned = () => process.ppid !== parent && child.kill('SIGTERM')
  if (process.env.npm_lifecycle_event !== undefined) setInterval(orphaned, 1_000).unref()
  child.on('error', (error) => {
    throw error
  })
  child.on('exit', (code, signal) => process.exit(code ?? 128 + constants.signals[signal]))
}
