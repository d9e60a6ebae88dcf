import { spawn } from 'node:child_process'
import { mkdirSync, symlinkSync } from 'node:fs'
import { writeFile } from 'node:fs/promises'
import { join } from 'node:path'
import { createCgroups } from './cgroups.ts'
import { groupsFileOf } from './janitor.ts'
import { openSandboxRoot } from './sandbox-root.ts'
import { claimUids } from './uids.ts'

/** A process with sandboxes that a test kills: `node janitor.fixture.ts <root> <canary folder>`. Prints what it created. */
const [, , folder = '', canary = ''] = process.argv
const root = await openSandboxRoot({ folder })
await claimUids(root)
const announce = (folders: readonly string[]): Promise<void> => writeFile(groupsFileOf(root), folders.join('\n'))
const cgroups = await createCgroups({ owner: root.owner, announce })
const groups = cgroups.parents.map((parent) => join(parent, 'one'))
for (const group of groups) mkdirSync(group)
const joined = groups.map((group) => `echo $$ > ${group}/cgroup.procs`).join(' && ')
const child = spawn('/bin/sh', ['-c', `trap "" TERM HUP; ${joined || true} && exec sleep 300`], { detached: true })
symlinkSync(canary, join(root.run, 'link'))
mkdirSync(join(root.run, 'deep'))
setInterval(() => undefined, 1_000)
setTimeout(() => console.log(JSON.stringify({ run: root.run, parents: cgroups.parents, pid: child.pid })), 200)
