#!/usr/bin/env node
// Plain JavaScript for any Node: finds Node 24, then the fastest form of the program that is there.
const needed = 24

if (process.env.npm_lifecycle_event === 'npx') endWithNpx()
if (Number(process.versions.node.split('.')[0]) < needed) {
  const { runOnNewerNode } = await import('./newer-node.mjs')
  await runOnNewerNode(needed)
} else {
  if (process.env.GANTRY_STARTER === '1') endWithStarter()
  const { runProgram } = await import('./program.mjs')
  await runProgram(process.argv.slice(2))
}

/** npx keeps a signal to itself: it ends and its shell with it, but the command would go on, with its port and data. */
function endWithNpx() {
  const parent = process.ppid
  setInterval(() => process.ppid !== parent && process.kill(process.pid, 'SIGTERM'), 1_000).unref()
}

/** The older Node that started this one may be killed before it can say so; what runs here must not outlive it. */
function endWithStarter() {
  delete process.env.GANTRY_STARTER
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
}
