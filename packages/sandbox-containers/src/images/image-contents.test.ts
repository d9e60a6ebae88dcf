import assert from 'node:assert/strict'
import { test } from 'node:test'
import { ToolError } from '@gantry/contract'
import { createLanguages } from '@gantry/sandbox/internal/languages/languages'
import { flavours } from './flavours.ts'
import { imageContents, imageLabels, imageLanguages } from './image-contents.ts'

const languages = createLanguages()

function contentsOf(programs: readonly string[], node: boolean) {
  const labels = {
    [imageLabels.parts]: 'x',
    [imageLabels.programs]: programs.join(' '),
    [imageLabels.node]: String(node),
  }
  return imageContents({ digest: `sha256:${'0'.repeat(64)}`, labels })
}

test('each flavour has the languages that its description names', () => {
  const titles: { readonly [language: string]: string } = {
    python: 'Python',
    javascript: 'JavaScript',
    typescript: 'TypeScript',
    bash: 'bash',
    c: 'C',
    cpp: 'C++',
    perl: 'Perl',
  }
  for (const { description, programs, node } of flavours) {
    const { available } = imageLanguages(contentsOf(programs, node), languages, 'docker')
    assert.deepEqual(
      available.map((name) => titles[name] ?? name),
      description.split(', '),
    )
  }
})

test('a language that an image lacks is refused with the flavour that has it, or with the setting to name an image in', () => {
  const { missing, waiting, asking } = imageLanguages(contentsOf(['/usr/bin/bash'], false), languages, 'gvisor')
  const remedyOf = (name: string): string => missing.get(name)?.remedy ?? ''
  const standard = 'Run `gantry runtime build standard`, and name gantry/sandbox:standard in `runtimes.gvisor.image`.'
  assert.equal(remedyOf('python'), standard)
  assert.equal(remedyOf('javascript'), standard)
  assert.match(remedyOf('c'), /^Run `gantry runtime build full`/)
  assert.equal(remedyOf('ruby'), 'Name an image that has it in `runtimes.gvisor.image`.')
  assert.deepEqual([missing.has('bash'), waiting, asking], [false, [], []])
})

test('the remedy names the command and the setting of the runtime', () => {
  const remedies = ['containerd', 'qemu', 'proxmox_lxc'].map((kind) => {
    const { missing } = imageLanguages(contentsOf(['/usr/bin/bash'], true), languages, kind)
    return ['c', 'ruby'].map((name) => missing.get(name)?.remedy)
  })
  assert.deepEqual(remedies, [
    [
      'Run `gantry runtime build full --engine containerd`, and name gantry/sandbox:full in `runtimes.containerd.image`.',
      'Name an image that has it in `runtimes.containerd.image`.',
    ],
    [
      'Run `gantry runtime build full --engine qemu`, and name gantry/sandbox:full in `runtimes.qemu.image`.',
      'Name an image that has it in `runtimes.qemu.image`.',
    ],
    [
      'Run `gantry runtime template FILE full`, and give the number of its container in `runtimes.proxmox.template`.',
      'Make a template that has it, and give the number of its container in `runtimes.proxmox.template`.',
    ],
  ])
})

test('an image without the label of our parts is refused', () => {
  assert.throws(
    () => imageContents({ digest: `sha256:${'0'.repeat(64)}`, labels: {} }),
    (error) => ToolError.is(error) && error.code === 'RUNTIME_UNAVAILABLE',
  )
})
