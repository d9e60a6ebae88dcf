#!/usr/bin/env node
// Plain JavaScript for any Node: finds Node 24, then the fastest form of the program that is there.
const needed = 24

if (Number(process.versions.node.split('.')[0]) < needed) {
  const { runOnNewerNode } = await import('./newer-node.mjs')
  await runOnNewerNode(needed)
} else {
  if (process.env.GANTRY_STARTER === '1') endWithStarter()
  const { runProgram } = await import('./program.mjs')
  await runProgram(process.argv.slice(2))
}

/** The older Node that started this one may be killed before it can say so; what runs here must not outlive it. */
function endWithStarter() {
  delete process.env.GANTRY_STARTER
  process.on('disconnect', () => process.kill(process.pid, 'SIGKILL'))
  process.channel?.unref()
}
