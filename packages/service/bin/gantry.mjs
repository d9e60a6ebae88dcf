#!/usr/bin/env node
import { spawn } from 'node:child_process'
