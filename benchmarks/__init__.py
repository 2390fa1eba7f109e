"""Measurements that back every statement about speed."""
