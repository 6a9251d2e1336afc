#!/bin/sh
torchrun train.py
