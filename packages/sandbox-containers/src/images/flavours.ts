/** What an image has: the packages of Debian it is made from, and what languages find in it. */
export interface Flavour {
  readonly name: string
  readonly description: string
  readonly packages: readonly string[]
  /** Programs that languages need, by path. */
  readonly programs: readonly string[]
  readonly node: boolean
}

const base = ['bash', 'dash', 'busybox-static', 'netbase', 'base-files', 'ca-certificates']
const python = ['python3-minimal', 'libpython3-stdlib']
const node = ['libstdc++6', 'libatomic1']
const compilers = ['gcc', 'g++', 'libc6-dev']

export const flavours: readonly Flavour[] = [
  {
    name: 'python',
    description: 'Python, bash',
    packages: [...base, ...python],
    programs: ['/usr/bin/python3', '/usr/bin/bash'],
    node: false,
  },
  {
    name: 'node',
    description: 'JavaScript, TypeScript, bash',
    packages: [...base, ...node],
    programs: ['/usr/bin/bash'],
    node: true,
  },
  {
    name: 'standard',
    description: 'Python, JavaScript, TypeScript, bash',
    packages: [...base, ...python, ...node],
    programs: ['/usr/bin/python3', '/usr/bin/bash'],
    node: true,
  },
  {
    name: 'full',
    description: 'Python, JavaScript, TypeScript, bash, C, C++, Perl',
    packages: [...base, ...python, ...node, ...compilers, 'perl'],
    programs: ['/usr/bin/python3', '/usr/bin/bash', '/usr/bin/cc', '/usr/bin/c++', '/usr/bin/perl'],
    node: true,
  },
]
