import { spawn } from 'node:child_process'
import { existsSync, realpathSync } from 'node:fs'
import { constants } from 'node:os'
import { dirname, join } from 'node:path'
import { fileURLToPath } from 'node:url'

const program = realpathSync(fileURLToPath(new URL('./gantry.mjs', import.meta.url)))

/** Runs the same command line on the Node that npm installed beside us, and ends as it ends. */
export async function runOnNewerNode(needed) {
  const node = installedNode(dirname(program))
  if (node === undefined) {
    process.stderr.write(
      `gantry needs Node ${needed} or newer; this is ${process.version}, and no newer one is installed beside it.\n` +
        'Install it beside gantry with `npm install node@24` (in the clone: `npm ci`), or from https://nodejs.org.\n',
    )
    process.exitCode = 1
    return
  }
  // The channel tells the child when this process is gone, also by kill -9: nothing may outlive the command.
  const child = spawn(node, [program, ...process.argv.slice(2)], {
    stdio: ['inherit', 'inherit', 'inherit', 'ipc'],
    env: { ...process.env, GANTRY_STARTER: '1' },
  })
  for (const name of ['SIGINT', 'SIGTERM', 'SIGHUP']) process.on(name, () => child.kill(name))
  const [code, signal] = await new Promise((resolve, reject) => {
    child.on('error', reject)
    child.on('exit', (...ended) => resolve(ended))
  })
  process.exitCode = code ?? 128 + constants.signals[signal]
}

/** The nearest `node_modules/.bin/node`, upwards from the program. */
function installedNode(folder) {
  const node = join(folder, 'node_modules', '.bin', 'node')
  if (existsSync(node)) return node
  return dirname(folder) === folder ? undefined : installedNode(dirname(folder))
}
