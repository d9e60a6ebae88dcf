#!/usr/bin/env node
// Plain JavaScript for any Node: finds Node 24, then the fastest form of the program that is there.
const needed = 24

if (Number(process.versions.node.split('.')[0]) < needed) {
  const { runOnNewerNode } = await import('./newer-node.mjs')
  await runOnNewerNode(needed)
} else {
  const { runProgram } = await import('./program.mjs')
  await runProgram(process.argv.slice(2))
}
