#!/usr/bin/env node
// Plain JavaScript for any Node: finds Node 24, then starts the command from the caches of earlier runs or from its modules.
const needed = 24

if (Number(process.versions.node.split('.')[0]) < needed) {
  const { runOnNewerNode } = await import('./newer-node.mjs')
  await runOnNewerNode(needed)
} else {
  const { startFast } = await import('./start-fast.mjs')
  const { existsSync } = process.getBuiltinModule('node:fs')
  const source = new URL('../src/main.ts', import.meta.url)
  const entry = existsSync(source) ? source : new URL('../dist/main.js', import.meta.url)
  await startFast(entry, ({ main }) => main(process.argv.slice(2)))
}
